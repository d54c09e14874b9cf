"""`ci-parity init`: what a repository says of itself, made into the files of a first pull request.

`models` finds what is shipped, `surroundings` where it runs, `first_cases` makes inputs and lets
the pinned runtime answer them, `proposal` puts these together and writes. Nothing that exists is
changed, and whatever was guessed is said with the key that changes it.
"""
