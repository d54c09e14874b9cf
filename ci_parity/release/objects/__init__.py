"""Where released bytes are kept, by their digest, and the pointers to what is out."""
