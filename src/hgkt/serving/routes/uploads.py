"""Images out of a form; large ones wait on disk."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from hgkt.serving.images import Upload
from hgkt.serving.json_bodies import media_type
from hgkt.serving.problems import Problem

FORM = "multipart/form-data"
_FIELD = "images"
IMAGES_CONTENT = {
    FORM: {
        "schema": {
            "type": "object",
            "required": [_FIELD],
            "properties": {
                _FIELD: {
                    "type": "array",
                    "items": {"type": "string", "contentMediaType": "application/octet-stream"},
                    "description": "JPEG, PNG or the like.",
                }
            },
        }
    }
}
"""What the API's description says of a form that `read_uploads` reads."""


@asynccontextmanager
async def read_uploads(
    request: Request, max_images: int, max_bytes: int
) -> AsyncIterator[list[Upload]]:
    """Read the images of a form; large ones lie on disk until the context ends.

    Parameters
    ----------
    request : Request
        Its body has not been read.
    max_images, max_bytes : int
        How many there may be, and how large one.
    """
    kind = media_type(request)
    if kind != FORM:
        raise Problem(415, f"the content type must be {FORM}; got {kind[:80]!r}")
    try:
        form = await request.form(max_files=max_images, max_fields=max_images, max_part_size=2**16)
    except Problem:
        raise
    except HTTPException as error:
        if "files" in str(error.detail):
            detail = f"the request has too many images; at most {max_images} are accepted at once"
            raise Problem(413, detail) from None
        raise Problem(400, f"the form cannot be read: {error.detail}") from None
    except OSError as error:
        raise Problem(507, f"the images cannot be kept: {error.strerror}") from None
    try:
        uploads = []
        for number, item in enumerate(form.getlist(_FIELD), start=1):
            if not isinstance(item, UploadFile):
                raise Problem(422, f"body {_FIELD}[{number - 1}]: a file is expected")
            if (item.size or 0) > max_bytes:
                raise Problem(
                    413,
                    f"image {number} has {item.size} bytes; at most {max_bytes} are accepted",
                )
            uploads.append(Upload(item.filename or "", item.file))
        if not uploads:
            raise Problem(422, f"body {_FIELD}: one file at least is expected")
        yield uploads
    finally:
        await form.close()
