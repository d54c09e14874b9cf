import pytest

from ci_parity.detect.runtime_words import explain_images, explain_runtime

OLD, NEW = (f"sha256:{digit * 64}" for digit in "12")
INSIDE = {"image": OLD, "python": "3.12.1", "package.onnxruntime": "1.31.1"}
ANOTHER = "another container image (111111111111 → 222222222222)"


def test_another_image_with_the_same_inside_is_said_to_be_that() -> None:
    """A rebuild of an image need not be another runtime."""
    words = explain_runtime(INSIDE, {**INSIDE, "image": NEW})
    assert words == (f"{ANOTHER}; the packages and libraries of its runtime are the same",)


def test_what_changed_inside_an_image_follows() -> None:
    """The image first, then its packages as for any runtime."""
    after = {**INSIDE, "image": NEW, "package.onnxruntime": "1.32.0"}
    assert explain_runtime(INSIDE, after) == (ANOTHER, "onnxruntime 1.31.1 → 1.32.0")


def test_nothing_is_claimed_of_an_image_that_has_not_run() -> None:
    """Its inside is not known yet."""
    words = f"{ANOTHER}; it is looked into when it runs"
    assert explain_images(f"image:x@{OLD}", f"image:x@{NEW}", INSIDE, {}) == (words,)
    assert explain_images(f"image:x@{OLD}", f"image:x@{NEW}", {}, {}) == (words,)


def test_an_image_with_other_options_is_the_same_image() -> None:
    """GPUs and memory are not its content."""
    after = f'image:{{"gpus":"all","image":"x@{OLD}"}}'
    words = ("the same container image with other options",)
    assert explain_images(f"image:x@{OLD}", after, INSIDE, INSIDE) == words


def test_a_tag_that_could_not_be_looked_up_is_called_one() -> None:
    """On a machine without the image."""
    (words,) = explain_images("image:x:1", f"image:x@{NEW}", {}, {})
    assert words.startswith("another container image (a tag → 222222222222)")


@pytest.mark.parametrize("other", ["onnxruntime==1.32.0", 'command:["./runner"]', "current"])
def test_other_runtimes_speak_for_themselves(other: str) -> None:
    """From a package to an image, say: both texts are shown as they are."""
    assert explain_images(other, f"image:x@{NEW}", {}, {}) == ()
    assert explain_images(f"image:x@{OLD}", other, {}, {}) == ()
