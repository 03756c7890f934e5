"""WORDS: values to text, Markdown, JSON and the formats of forges. Nothing is decided here."""
