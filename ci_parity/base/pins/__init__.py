"""What a repository pins: Python projects in every lock format, and container images.

Below config (which runtime does the repository pin?) and detect (which converter made the model?).
Files are parsed, never compared as text, and nothing is resolved, fetched or run. Their authors are
not trusted: what cannot be read is an EvidenceError with its file and line.
"""

from ci_parity.base.pins.change import PinChange, PinChangeKind, compare_pins
from ci_parity.base.pins.find import find_pin_files
from ci_parity.base.pins.image import Image, ImageChange, ImageChangeKind, compare_images
from ci_parity.base.pins.image_files import read_images
from ci_parity.base.pins.pin import Environment, Pin, PinSet
from ci_parity.base.pins.read import read_pins

__all__ = [
    "Environment", "Image", "ImageChange", "ImageChangeKind", "Pin", "PinChange", "PinChangeKind",
    "PinSet", "compare_images", "compare_pins", "find_pin_files", "read_images", "read_pins",
]  # fmt: skip
