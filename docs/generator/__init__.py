"""What the documentation site takes from the code; `hook.py` hands it to MkDocs. *.md here are templates."""
