"""PDF files as tests need them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragc.corpora.documents import pdf

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


def text_of(
    path: Path, streams: Sequence[str], font: str = "/Helvetica", extra: str = "<< >>", angle: int = 0
) -> str:
    """Returns the text and notes of a PDF with a page for each content stream, which names its font `F`.

    The font may refer to the object 4, which is `extra`. Pages are shown turned by `angle`.
    """
    pages = range(5, 5 + 2 * len(streams), 2)
    kids = " ".join(f"{number} 0 R" for number in pages)
    about = f"/Parent 2 0 R /MediaBox [0 0 595 842] /Rotate {angle} /Resources << /Font << /F 3 0 R >> >>"
    font = font if "/BaseFont" in font else f"/Subtype /Type1 /BaseFont {font}"
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>"]
    objects += f"<< /Type /Font {font} >>", extra
    for number, stream in zip(pages, streams, strict=True):
        objects.append(f"<< /Type /Page {about} /Contents {number + 1} 0 R >>")
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    document = pdf.read(write_objects(path, objects))
    return "\n\n".join([*(page.text for page in document.pages), *document.notes])


def drawn(x: float, text: str, y: float = 700.0) -> str:
    """Returns the content stream of a text."""
    return f"BT /F 10 Tf {x} {y} Td ({text}) Tj ET\n"
