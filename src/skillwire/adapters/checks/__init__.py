"""What the doctor looks at: each check yields what it found, good facts included."""
