"""Decode and resize images. Pillow is imported only when an image is read."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from ..core.bounded_files import check_size, opening
from ..core.errors import DataError

STRETCH, CROP, PAD = RESIZE = ("stretch", "crop", "pad")  # ways to make squares of images
MOST_PIXELS = 50_000_000  # of one image
Named = tuple[str, bytes | Path]  # what to call the image in an error, and where it is


def decode_images(
    images: Sequence[Named], size: int | None = None, channels: int | None = None, resize: str = STRETCH
) -> np.ndarray:
    """[N, channels, H, W] uint8. `size` resizes all to squares (bilinear, antialiased by Pillow): by
    stretching them, by cropping the middle, or by padding with black.

    Without `channels`, the first image decides: 1 if it is grey, else 3. Without `size`, all images
    must be as large as the first.
    """
    if not images:
        raise DataError("no images to read")
    mode = {1: "L", 3: "RGB"}[channels or _channels_of(images[0])]
    first = _decode(images[0], mode, size, resize)
    check_size(len(images) * first.nbytes, f"{images[0][0]} and {len(images) - 1} more")
    made = np.empty((len(images), *first.shape), dtype=np.uint8)
    made[0] = first
    for row, image in enumerate(images[1:], start=1):
        pixels = _decode(image, mode, size, resize)
        if pixels.shape != first.shape:
            raise DataError(
                f"{image[0]}: is {_extent(pixels)}, but {images[0][0]} is {_extent(first)}; "
                "set the option size to resize all images"
            )
        made[row] = pixels
    return made


def decode_masks(masks: Sequence[Named], size: int | None = None) -> np.ndarray:
    """[N, H, W] uint8 of class ids (palette indices stay indices); resized by the nearest pixel."""
    made = [_open_mask(mask, size) for mask in masks]
    for (name, _), pixels in zip(masks, made):
        if pixels.shape != made[0].shape:
            raise DataError(
                f"{name}: is {pixels.shape[1]}×{pixels.shape[0]}, but {masks[0][0]} is "
                f"{made[0].shape[1]}×{made[0].shape[0]}; set the option size to resize all masks"
            )
    return np.stack(made)


def resize(x: np.ndarray, size: int, chunk: int = 1024) -> np.ndarray:
    """[N, channels, size, size] of uint8 images, bilinear with antialiasing, rounded."""
    if x.shape[2:] == (size, size):
        return x
    made = np.empty((*x.shape[:2], size, size), dtype=np.uint8)
    for start in range(0, len(x), chunk):
        part = torch.from_numpy(np.array(x[start : start + chunk])).float()
        part = F.interpolate(part, (size, size), mode="bilinear", antialias=True, align_corners=False)
        made[start : start + chunk] = part.round_().clamp_(0, 255).to(torch.uint8).numpy()
    return made


def extents(images: Sequence[Named]) -> np.ndarray:
    """[N, 2] width and height of each image, as the first bytes of the files say."""
    from PIL import Image

    found = []
    for name, data in images:
        with opening(name, "an image"), Image.open(_stream(data)) as opened:
            found.append(opened.size)
    return np.array(found)


def _decode(image: Named, mode: str, size: int | None, resize: str) -> np.ndarray:
    from PIL import Image

    name, data = image
    with opening(name, "an image"), Image.open(_stream(data)) as opened:
        _check_pixels(opened, name)
        converted = opened.convert(mode)
    if size is not None and converted.size != (size, size):
        converted = _squared(converted, size, resize)
    pixels = np.asarray(converted, dtype=np.uint8)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def _squared(image: Any, size: int, resize: str) -> Any:
    from PIL import Image, ImageOps

    square, method = (size, size), Image.Resampling.BILINEAR
    if resize == CROP:
        return ImageOps.fit(image, square, method)
    return ImageOps.pad(image, square, method) if resize == PAD else image.resize(square, method)


def _open_mask(mask: Named, size: int | None) -> np.ndarray:
    from PIL import Image

    name, data = mask
    with opening(name, "a mask"), Image.open(_stream(data)) as opened:
        _check_pixels(opened, name)
        opened.load()
        kept = opened.resize((size, size), Image.Resampling.NEAREST) if size else opened.copy()
    pixels = np.asarray(kept)
    if pixels.ndim != 2:
        raise DataError(f"{name}: mask has {pixels.shape[2]} channels; expected one, with class ids")
    return pixels.astype(np.uint8)


def _channels_of(image: Named) -> int:
    from PIL import Image

    name, data = image
    with opening(name, "an image"), Image.open(_stream(data)) as opened:
        return 1 if opened.mode in ("1", "L", "I;16") else 3


def _check_pixels(image: Any, name: str) -> None:
    """The size stands in the first bytes of a file; nothing is decoded yet."""
    width, height = image.size
    if width * height > MOST_PIXELS:
        raise DataError(f"{name}: declares {width:,}×{height:,} pixels; at most {MOST_PIXELS:,} are read")


def _stream(data: bytes | Path) -> Path | io.BytesIO:
    return data if isinstance(data, Path) else io.BytesIO(data)


def _extent(pixels: np.ndarray) -> str:
    return f"{pixels.shape[2]}×{pixels.shape[1]}"
