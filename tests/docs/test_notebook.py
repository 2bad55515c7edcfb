"""The notebook in docs shows what its cells give now. `python tests/docs/test_notebook.py` runs it and writes that."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebook.ipynb"


def run(folder: Path) -> Any:
    """The notebook, with the outputs of now and nothing else of the run."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(folder)}})
    # `execute` leaves its event loop open.
    asyncio.run(client.async_execute())
    for cell in notebook.cells:
        cell.metadata = {}
    notebook.metadata.language_info = {"name": "python"}
    return notebook


def outputs(notebook: Any) -> list[Any]:
    return [cell.get("outputs") for cell in notebook.cells]


def test_the_notebook_shows_what_its_cells_give_now(tmp_path: Path) -> None:
    assert outputs(nbformat.read(NOTEBOOK, as_version=4)) == outputs(run(tmp_path))


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        NOTEBOOK.write_text(nbformat.writes(run(Path(place))) + "\n", encoding="utf-8")
