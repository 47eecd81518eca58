"""The built-in profiles (*.toml), what a profile says, and its reader."""
