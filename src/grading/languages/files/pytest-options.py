"""Prints those of the project's `addopts` of pytest that decide which tests exist and how they are loaded."""

import configparser
import shlex

# Options with a value, in one word or two. Options for coverage, worker processes, reports and early ends are dropped.
SHORT = ('-m', '-k', '-p', '-W')
LONG = ('--ignore', '--ignore-glob', '--deselect', '--import-mode', '--asyncio-mode', '--ds', '--dc')

# Settings files in the order in which pytest looks for them, with the table or section of its options.
SETTINGS_FILES = {
    'pytest.toml': ['pytest'],
    '.pytest.toml': ['pytest'],
    'pytest.ini': 'pytest',
    '.pytest.ini': 'pytest',
    'pyproject.toml': ['tool', 'pytest'],
    'tox.ini': 'pytest',
    'setup.cfg': 'tool:pytest',
}


def read_toml(name, keys):
    import tomllib

    with open(name, 'rb') as file:
        table = tomllib.load(file)
    for key in keys:
        table = table.get(key, {})
    return table.get('ini_options', table).get('addopts')


def read_ini(name, section):
    file = configparser.ConfigParser(interpolation=None, strict=False)
    file.read(name, 'utf-8')
    return file.get(section, 'addopts', fallback=None)


def read_options():
    for name, table in SETTINGS_FILES.items():
        try:
            found = read_toml(name, table) if isinstance(table, list) else read_ini(name, table)
        except (OSError, ImportError, ValueError, AttributeError, configparser.Error):
            continue
        if found is not None:
            return found if isinstance(found, list) else shlex.split(str(found))
    return []


def select(words):
    rest = iter(map(str, words))
    for word in rest:
        if word in SHORT or word in LONG:
            yield from (word, next(rest, ''))
        elif word.startswith(SHORT) or word.split('=')[0] in LONG:
            yield word


try:
    print(shlex.join(select(read_options())))
except ValueError:  # An unclosed quote, with which pytest itself would not start.
    pass
