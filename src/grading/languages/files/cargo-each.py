"""Tests every target of a workspace alone, so that the others run even if one does not compile."""

import json
import subprocess
import sys

TEST = ['cargo', 'test', '--offline', '--no-fail-fast']
# Kinds of targets that an option of Cargo selects by name.
NAMED_KINDS = ('bin', 'test', 'example', 'bench')


def main():
    metadata_command = ['cargo', 'metadata', '--offline', '--no-deps', '--format-version=1']
    metadata = subprocess.run(metadata_command, stdout=subprocess.PIPE, check=True)
    codes = [
        subprocess.run([*TEST, '--manifest-path', package['manifest_path'], '--package', package['name'], *options]).returncode
        for package in json.loads(metadata.stdout)['packages'] for target in package['targets'] for options in test_options(target)
    ]
    return next((code for code in codes if code != 0), 0)


def test_options(target):
    """Yields the options with which Cargo runs the tests of a target, as `cargo test` does by default."""
    kind = next((kind for kind in target['kind'] if kind in NAMED_KINDS), 'lib')
    if target['test']:
        yield ['--lib'] if kind == 'lib' else [f'--{kind}', target['name']]
    if target['doctest']:
        yield ['--doc']


if __name__ == '__main__':
    sys.exit(main())
