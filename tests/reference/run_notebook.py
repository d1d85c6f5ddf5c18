"""Runs the cells of a notebook one after the other, as a kernel would: run_notebook.py FILE"""

import ast
import json
import sys


def main() -> None:
    notebook = json.load(open(sys.argv[1], encoding="utf-8"))
    assert notebook["nbformat"] == 4
    names: dict = {"__name__": "__main__"}
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code":
            continue
        assert not cell["outputs"] and cell["execution_count"] is None, f"cell {number} has output, which would be old one day"
        tree = ast.parse("".join(cell["source"]), filename=f"cell {number}")
        last = ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"cell {number}", "exec"), names)
        if last is not None:
            print(eval(compile(last, f"cell {number}", "eval"), names))


main()
