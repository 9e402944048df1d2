"""What a person may answer with: text and images, checked before they reach the model."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from zett_agent.messages import ImageContent, ImageUrlSource, TextContent, UserContentPart

MAX_PARTS = 513
AskUserMaxImages = 32
#: Bytes of all images of one answer together, decoded.
AskUserMaxImageBytes = 10_000_000

_DATA_URL = re.compile(r"data:image/[^;,]+(;[^;,]+)*;base64,", re.IGNORECASE)
_SHOWN_ERRORS = 5


class AskUserTextPart(BaseModel):
    """A piece of text; an empty one is left out."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["text"] = "text"
    text: str


class AskUserImagePart(BaseModel):
    """An image as a ``data:image/...;base64,`` URL; ``name`` tells the model which one it is."""

    model_config = ConfigDict(extra="forbid")

    type: Literal["image"] = "image"
    name: Annotated[str, Field(min_length=1, max_length=500)]
    mime_type: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    content_url: str


AskUserPart = Annotated[AskUserTextPart | AskUserImagePart, Field(discriminator="type")]


class AskUserResponse(BaseModel):
    """The part of an answer's payload that this module reads; the rest is the application's."""

    parts: Annotated[list[AskUserPart], Field(max_length=MAX_PARTS)] = Field(default_factory=list)

    def content(self) -> list[UserContentPart]:
        """The parts for the model, without empty text; ValueError for an image that is none, and above the limits."""
        content: list[UserContentPart] = []
        images = size = 0
        for part in self.parts:
            if isinstance(part, AskUserImagePart):
                images += 1
                image, decoded = _image(part)
                size += decoded
                content.append(image)
            elif part.text:
                content.append(TextContent(part.text))
        if images > AskUserMaxImages:
            raise ValueError(f"The answer has {images} images; at most {AskUserMaxImages} are allowed.")
        if size > AskUserMaxImageBytes:
            raise ValueError(f"The images of the answer have {size} bytes; at most {AskUserMaxImageBytes} are allowed.")
        return content


def answer_content(payload: Mapping[str, Any]) -> list[UserContentPart]:
    """The content of an answer that is given in ``parts``; empty when it is not. ValueError when it cannot be used."""
    parts = payload.get("parts")
    if not isinstance(parts, list):
        return []
    try:
        return AskUserResponse(parts=parts).content()
    except ValidationError as error:
        raise ValueError(_described(error)) from None


def _image(part: AskUserImagePart) -> tuple[ImageContent, int]:
    """The image and its size in bytes."""
    url = "".join(part.content_url.split())
    if not _DATA_URL.match(url):
        raise ValueError(f"The image {part.name!r} is not given as a data:image/...;base64, URL.")
    try:
        size = len(base64.b64decode(url.partition(",")[2], validate=True))
    except ValueError:
        raise ValueError(f"The image {part.name!r} is not valid base64.") from None
    if not size:
        raise ValueError(f"The image {part.name!r} is empty.")
    return ImageContent(ImageUrlSource(url), alt_text=part.name), size


def _described(error: ValidationError) -> str:
    """What is wrong, without the values: they may be images."""
    errors = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"- {'.'.join(str(key) for key in each['loc'])}: {each['msg']}" for each in errors[:_SHOWN_ERRORS]]
    if len(errors) > _SHOWN_ERRORS:
        lines.append(f"- and {len(errors) - _SHOWN_ERRORS} more")
    return "\n".join(["The answer's parts cannot be used:", *lines])
