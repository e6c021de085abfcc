"""PDF files as tests need them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Line = tuple[float, float, str] | tuple[float, float, str, float]
"""A size, a height above the lower edge, a text, and perhaps a left edge."""


def write_pdf(path: Path, pages: Sequence[Sequence[Line]]) -> Path:
    """Writes a PDF with these lines on its pages."""
    import pypdfium2 as pdfium

    raw = pdfium.raw
    document: Any = pdfium.PdfDocument.new()
    font = raw.FPDFText_LoadStandardFont(document, b"Helvetica")
    for lines in pages:
        page = document.new_page(595, 842)
        for size, height, text, *left in lines:
            item = raw.FPDFPageObj_CreateTextObj(document, font, size)
            encoded = f"{text}\x00".encode("utf-16-le")
            buffer = ctypes.create_string_buffer(encoded, len(encoded))
            raw.FPDFText_SetText(item, ctypes.cast(buffer, ctypes.POINTER(raw.FPDF_WCHAR)))
            raw.FPDFPageObj_Transform(item, 1, 0, 0, 1, *(left or [60]), height)
            raw.FPDFPage_InsertObject(page, item)
        raw.FPDFPage_GenerateContent(page)
    document.save(str(path))
    return path


def write_objects(path: Path, objects: Sequence[str]) -> Path:
    """Writes a PDF of these objects, the first of them its catalogue, without a table of their places."""
    body = "".join(f"{number} 0 obj\n{item}\nendobj\n" for number, item in enumerate(objects, 1))
    trailer = f"trailer << /Root 1 0 R /Size {len(objects) + 1} >>\n%%EOF\n"
    path.write_text(f"%PDF-1.4\n{body}{trailer}", "latin-1")
    return path
