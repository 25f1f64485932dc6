"""Of the options that a project always gives to pytest, those that say which tests there are and how they are loaded."""

import configparser
import shlex

# With a value, in one word or two. What asks for coverage, other processes, reports or an early end is left out.
SHORT = ('-m', '-k', '-p', '-W')
LONG = ('--ignore', '--ignore-glob', '--deselect', '--import-mode', '--asyncio-mode', '--ds', '--dc')

# In the order in which pytest looks for them: where in the file they stand.
PLACES = {
    'pytest.toml': ['pytest'],
    '.pytest.toml': ['pytest'],
    'pytest.ini': 'pytest',
    '.pytest.ini': 'pytest',
    'pyproject.toml': ['tool', 'pytest'],
    'tox.ini': 'pytest',
    'setup.cfg': 'tool:pytest',
}


def of_toml(name, keys):
    import tomllib

    with open(name, 'rb') as file:
        table = tomllib.load(file)
    for key in keys:
        table = table.get(key, {})
    return table.get('ini_options', table).get('addopts')


def of_ini(name, section):
    file = configparser.ConfigParser(interpolation=None, strict=False)
    file.read(name, 'utf-8')
    return file.get(section, 'addopts', fallback=None)


def options():
    for name, place in PLACES.items():
        try:
            said = of_toml(name, place) if isinstance(place, list) else of_ini(name, place)
        except (OSError, ImportError, ValueError, AttributeError, configparser.Error):
            continue
        if said is not None:
            return said if isinstance(said, list) else shlex.split(str(said))
    return []


def kept(words):
    rest = iter(map(str, words))
    for word in rest:
        if word in SHORT or word in LONG:
            yield from (word, next(rest, ''))
        elif word.startswith(SHORT) or word.split('=')[0] in LONG:
            yield word


try:
    print(shlex.join(kept(options())))
except ValueError:  # Quotes that do not end. pytest itself would not start.
    pass
