"""Runs unittest tests and writes a JSON line for each with its id, status and message."""

import json
import os
import random
import sys
import unittest

sys.path.insert(0, os.getcwd())


class Report(unittest.TextTestResult):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.lines = {}

    def record(self, test, status, message=''):
        """Records a result. Of a test with subtests, the worst result counts."""
        order = ('passed', 'skipped', 'failed', 'errored')
        before = self.lines.get(test.id())
        if before is None or order.index(before['status']) < order.index(status):
            self.lines[test.id()] = {'id': test.id(), 'status': status, 'message': message[-2000:]}

    def addSuccess(self, test):
        super().addSuccess(test)
        self.record(test, 'passed')

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.record(test, 'failed', self._exc_info_to_string(err, test))

    def addError(self, test, err):
        super().addError(test, err)
        self.record(test, 'errored', self._exc_info_to_string(err, test))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.record(test, 'skipped', str(reason))

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.record(test, 'skipped')

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.record(test, 'failed', 'The test passed although it was expected to fail.')

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            failed = issubclass(err[0], test.failureException)
            self.record(test, 'failed' if failed else 'errored', self._exc_info_to_string(err, test))


def load(targets):
    loader = unittest.defaultTestLoader
    if targets:
        return loader.loadTestsFromNames([name_of(target) for target in targets])
    suite = unittest.TestSuite([loader.discover('.')])
    for folder in ('tests', 'test'):
        if os.path.isdir(folder) and not os.path.exists(os.path.join(folder, '__init__.py')):
            sys.path.insert(0, os.path.abspath(folder))
            suite.addTest(unittest.TestLoader().discover(folder))
    return suite


def name_of(path):
    """Returns the module name of a file, relative to the lowest parent folder that is not a package."""
    path = os.path.normpath(path)
    folder, name = os.path.split(path[:-3])
    while folder and os.path.exists(os.path.join(folder, '__init__.py')):
        folder, above = os.path.split(folder)
        name = f'{above}.{name}'
    if folder:
        sys.path.insert(0, os.path.abspath(folder))
    return name


def shuffled(suite, generator):
    """Shuffles the test classes, and the tests within each class. Class fixtures are set up once."""
    classes = {}
    for test in flat(suite):
        classes.setdefault(type(test), []).append(test)
    order = sorted(classes, key=lambda test_class: (test_class.__module__, test_class.__qualname__))
    generator.shuffle(order)
    for test_class in order:
        generator.shuffle(classes[test_class])
    return unittest.TestSuite(test for test_class in order for test in classes[test_class])


def flat(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def main():
    report = sys.argv.pop(1)
    suite = load(sys.argv[1:])
    if listed := os.environ.get('ASSAY_SELECTED'):
        with open(listed, encoding='utf-8') as file:
            selected = set(json.load(file))
        suite = unittest.TestSuite(test for test in flat(suite) if test.id() in selected)
    if seed := os.environ.get('ASSAY_SEED'):
        suite = shuffled(suite, random.Random(int(seed)))
    result = unittest.TextTestRunner(resultclass=Report, verbosity=1).run(suite)
    with open(report, 'w', encoding='ascii') as file:
        for line in result.lines.values():
            file.write(json.dumps(line) + '\n')
        file.write(json.dumps({'end': len(result.lines)}) + '\n')
    sys.exit(0 if result.wasSuccessful() else 1)


main()
