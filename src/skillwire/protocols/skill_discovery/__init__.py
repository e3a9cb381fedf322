"""Skill Discovery Protocol: skills that announce themselves on a local network, and are found and watched there."""
