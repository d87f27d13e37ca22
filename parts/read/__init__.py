"""Parts as they are opened, read and verified."""
