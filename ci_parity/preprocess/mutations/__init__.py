"""Single changes of a pipeline that people commonly get wrong, each a pipeline of its own."""
