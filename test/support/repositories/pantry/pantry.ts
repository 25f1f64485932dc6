import { type Drafts, draft } from '../draft.ts'
import type { SampleRepository } from '../repository.ts'

const CI = `name: checks
on: [push]
jobs:
  lint:
    runs-on: ubuntu-latest
    steps:
      - run: ruff check
  test:
    runs-on: ubuntu-latest
    container: python:3.13
    env:
      DATABASE_URL: postgresql://pantry:\${{ secrets.DB_PASSWORD }}@db/pantry_test
      REDIS_HOST: cache
    services:
      db:
        image: postgres:16
        env:
          POSTGRES_USER: pantry
          POSTGRES_PASSWORD: \${{ secrets.DB_PASSWORD }}
          POSTGRES_DB: pantry_test
      cache:
        image: redis:7-alpine
    steps:
      - run: pytest
`

const base: Record<string, string> = {
  'README.md': '# pantry\n\nCounts what is left on the shelves, in PostgreSQL.\n',
  '.gitignore': '__pycache__/\n*.egg-info/\n',
  '.github/workflows/checks.yml': CI,
  'pyproject.toml': `[build-system]
requires = ["setuptools>=68"]
build-backend = "setuptools.build_meta"

[project]
name = "pantry-shelves"
version = "0.1.0"
requires-python = ">=3.9"

[project.optional-dependencies]
test = ["pytest>=8"]

[tool.setuptools]
packages = ["pantry"]
`,
  'pantry/__init__.py': '',
  'pantry/database.py': `import os
import subprocess


def query(sql):
    """Rows of a query, one text each."""
    command = ["psql", os.environ["DATABASE_URL"], "--no-psqlrc", "--tuples-only", "--no-align", "--quiet"]
    ended = subprocess.run([*command, "-v", "ON_ERROR_STOP=1", "-c", sql], capture_output=True, text=True)
    if ended.returncode != 0:
        raise RuntimeError(ended.stderr)
    return ended.stdout.splitlines()
`,
  'pantry/shelves.py': `from pantry.database import query


def create():
    """Starts with empty shelves."""
    columns = "name text primary key, number integer not null check (number >= 0)"
    query(f"drop table if exists shelves; create table shelves ({columns})")


def add(name, number):
    query(f"insert into shelves values ('{name}', {int(number)})")


def take(name, number):
    query(f"update shelves set number = number - {int(number)} where name = '{name}'")


def count(name):
    return sum(int(row) for row in query(f"select number from shelves where name = '{name}'"))


def names():
    return query("select name from shelves order by name")
`,
  'pantry/cache.py': `import os
import socket


def ask(*words):
    """The answer of Redis to one command, as it is sent."""
    with socket.create_connection((os.environ["REDIS_HOST"], 6379), 5) as connection:
        connection.sendall((" ".join(words) + "\\r\\n").encode())
        return connection.recv(4096).decode().strip()
`,
  'tests/test_cache.py': `import pytest
from pantry.cache import ask


def test_the_cache_answers():
    assert ask("PING") == "+PONG"


def test_the_cache_is_empty_at_first():
    assert ask("EXISTS", "flour") == ":0"


@pytest.mark.parametrize("value", ["1", "2"])
def test_the_cache_keeps_a_value(value):
    ask("SET", "rice", value)
    assert ask("GET", "rice").splitlines()[-1] == value
`,
  'tests/test_shelves.py': `import pytest
from pantry import shelves


@pytest.fixture(autouse=True)
def table():
    shelves.create()


def test_shelves_are_empty_at_first():
    assert shelves.names() == []


def test_something_unknown_counts_nothing():
    assert shelves.count("salt") == 0


@pytest.mark.parametrize("number", [0, 1, 12])
def test_what_was_added_is_counted(number):
    shelves.add("rice", number)
    assert shelves.count("rice") == number


def test_names_are_sorted_without_regard_to_case():
    for name in ["rice", "Salt", "beans"]:
        shelves.add(name, 1)
    assert shelves.names() == ["beans", "rice", "Salt"]


def test_something_can_be_taken():
    shelves.add("rice", 3)
    shelves.take("rice", 2)
    assert shelves.count("rice") == 1


def test_more_than_there_is_cannot_be_taken():
    shelves.add("rice", 3)
    with pytest.raises(RuntimeError):
        shelves.take("rice", 4)
`,
}

/** Stock in PostgreSQL and Redis, which its CI file declares as services. Python and pytest. */
export const pantry: SampleRepository = {
  name: 'pantry',
  language: 'python',
  base,
  steps: [
    {
      number: 1,
      title: 'Add to what is already on the shelf',
      body: 'Adding something for the second time failed, because the name was already in the table. Now the numbers are summed.',
      edits: {
        'pantry/shelves.py': [
          [
            `    query(f"insert into shelves values ('{name}', {int(number)})")
`,
            `    insert = f"insert into shelves values ('{name}', {int(number)})"
    query(f"{insert} on conflict (name) do update set number = shelves.number + excluded.number")
`,
          ],
        ],
        'tests/test_shelves.py': [
          [
            'def test_names_are_sorted',
            `def test_numbers_are_summed():
    shelves.add("rice", 2)
    shelves.add("rice", 3)
    assert shelves.count("rice") == 5


def test_something_is_named_once_however_often_it_is_added():
    shelves.add("rice", 2)
    shelves.add("rice", 3)
    assert shelves.names() == ["rice"]


def test_names_are_sorted`,
          ],
        ],
      },
      expected: 'ready',
      difficulty: 'easy',
    },
    {
      message: 'Try another database in CI',
      edits: { '.github/workflows/checks.yml': [['image: postgres:16', 'image: mongo:7']] },
    },
    {
      number: 2,
      title: 'Tell the total number',
      body: 'People asked how much there is of everything together, so there is a function for the total now.',
      edits: {
        'pantry/shelves.py': [
          [
            'def names():',
            'def total():\n    return int(query("select coalesce(sum(number), 0) from shelves")[0])\n\n\ndef names():',
          ],
        ],
        'tests/test_shelves.py': [
          [
            'def test_names_are_sorted',
            `def test_the_total_of_nothing():
    assert shelves.total() == 0


def test_names_are_sorted`,
          ],
        ],
      },
      expected: 'unsupported_service',
      difficulty: 'easy',
    },
  ],
  tag: 'v1.0.0',
}

export const drafts: Drafts = {
  1: draft(
    'Adding something twice fails',
    'The shelves are kept in a table with one row for each thing. Adding a thing that is on the shelf already raises an error from the database, because its name is in the table. People who come back from the shop with more of the same have to look first whether there is some left, and cannot add to it at all.',
    'Adding a thing that is on the shelf already adds the number to what is there, so that its count is the sum of everything that was added and not taken since. A thing is listed once among the names, however often it was added. Adding a new thing works as today, and taking more than there is still fails.',
  ),
}
