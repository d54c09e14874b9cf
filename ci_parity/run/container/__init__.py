"""Workers in sibling containers, through the Docker API: images, files, limits, a channel, reaping.

Nothing of ours is left behind and nothing of the host is visible inside but what a worker needs.
"""
