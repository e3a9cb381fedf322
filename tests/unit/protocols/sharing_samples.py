"""A descriptor and an index entry of Skill Sharing that nothing is wrong with."""

from typing import Any

ENTRY: dict[str, Any] = {
    "id": "example-corp/forecast",
    "name": "Forecast",
    "capability_type": "api",
    "description": "Tells the weather.",
    "descriptor_url": "https://skills.example.com/skills/forecast.json",
    "access": "public",
    "version": "2.1.0",
}
DESCRIPTOR: dict[str, Any] = {
    "protocol": {"version": "1.0.0"},
    "id": "example-corp/forecast",
    "name": "Forecast",
    "version": "2.1.0",
    "capability_type": "api",
    "description": "Tells the weather.",
    "provider": {"name": "Example"},
    "endpoint": {"url": "https://example.com/invoke", "method": "POST"},
    "inputs": [],
    "output": {"content_type": "application/json"},
    "auth": {"type": "none"},
    "access": "public",
}
