"""Tests every target of a workspace alone, so that one that does not compile keeps none of the others from running."""

import json
import subprocess
import sys

TEST = ['cargo', 'test', '--offline', '--no-fail-fast']
NAMED = ('bin', 'test', 'example', 'bench')


def main():
    asked = ['cargo', 'metadata', '--offline', '--no-deps', '--format-version=1']
    told = subprocess.run(asked, stdout=subprocess.PIPE, check=True)
    codes = [
        subprocess.run([*TEST, '--manifest-path', package['manifest_path'], '--package', package['name'], *words]).returncode
        for package in json.loads(told.stdout)['packages'] for target in package['targets'] for words in words_of(target)
    ]
    return next((code for code in codes if code != 0), 0)


def words_of(target):
    """Those that `cargo test` runs when nobody names any."""
    kind = next((kind for kind in target['kind'] if kind in NAMED), 'lib')
    if target['test']:
        yield ['--lib'] if kind == 'lib' else [f'--{kind}', target['name']]
    if target['doctest']:
        yield ['--doc']


if __name__ == '__main__':
    sys.exit(main())
