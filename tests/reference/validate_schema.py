"""Check YAML files against a draft 2020-12 JSON Schema, as a second opinion."""

import json
import sys

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError


def problems(validator, path):
    """Yield (path in the document, message) for everything wrong with one file."""
    try:
        with open(path, encoding="utf-8") as file:
            document = yaml.safe_load(file)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        yield "$", " ".join(str(error).split())
        return
    errors = validator.iter_errors(document)
    for error in sorted(errors, key=lambda e: e.json_path):
        yield error.json_path, error.message


def main(schema_path, paths):
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        print(f"{schema_path}: {error.json_path}: {error.message}")
        return 1
    validator = Draft202012Validator(schema)
    failed = False
    for path in paths:
        for where, message in problems(validator, path):
            print(f"{path}: {where}: {message}")
            failed = True
    return int(failed)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: validate_schema.py SCHEMA.json FILE.yaml...")
    sys.exit(main(sys.argv[1], sys.argv[2:]))
