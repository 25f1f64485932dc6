"""Parses the reports of test runners. Their content is untrusted; nothing that could change them runs any more."""

import hashlib
import json
import os
import re

from junit import read_ctest, read_junit
from libtest import read_libtest
from processes import BrokenRun, read_carefully

REPORT_BYTES = 64 * 1024 * 1024
FILES_MAX = 5000
TESTS_MAX = 50_000
ID_CHARACTERS = 400
MESSAGE_CHARACTERS = 2000
ALL_MESSAGES_CHARACTERS = 2_000_000
BY_SEVERITY = ('passed', 'skipped', 'failed', 'errored')


def read(folder, plan, code):
    """Returns statuses by test id. Raises BrokenRun if the report is unusable or contradicts the exit code."""
    cases = []
    try:
        for content in report_contents(folder, plan['report']):
            cases += READERS[plan['report']](content)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise BrokenRun('no_report', f'The report cannot be read: {type(error).__name__}: {error}') from None
    if len(cases) > TESTS_MAX:
        raise BrokenRun('no_report', f'The report has more than {TESTS_MAX} tests.')
    if not cases:
        raise BrokenRun('no_report', f'No test ran. The runner ended with {code}.')
    require_agreement(cases, plan['exits'], code)
    return {**merge_cases(cases, plan['repository']), 'exitCode': code}


def report_contents(folder, kind):
    """Yields the content of each report file. Raises BrokenRun if there are none, too many, or too large ones."""
    names = sorted(os.listdir(folder))
    if not names:
        raise BrokenRun('no_report', 'The runner left no report.')
    if len(names) > (FILES_MAX if kind == 'junit-files' else 1):
        raise BrokenRun('no_report', 'There are more reports than the runner writes.')
    left = REPORT_BYTES
    for name in names:
        try:
            content = read_carefully(os.path.join(folder, name), left)
        except OSError as error:
            raise BrokenRun('no_report', f'A report cannot be opened: {error.strerror}') from None
        left -= len(content)
        yield content


def require_agreement(cases, exits, code):
    """Raises BrokenRun if the exit code of the runner contradicts its report."""
    bad = any(status in ('failed', 'errored') for _, status, _ in cases)
    expected = exits['failed' if bad else 'passed']
    if code not in expected:
        says = 'that tests failed' if bad else 'that all tests passed'
        raise BrokenRun('no_report', f'The report says {says}, and the runner ended with {code}.')


def merge_cases(cases, repository):
    """Returns statuses and messages by test id. Of several results with the same id, the worst counts."""
    statuses, messages, left = {}, {}, ALL_MESSAGES_CHARACTERS
    for name, status, message in cases:
        test = normalise_id(name, repository)
        if test in statuses and BY_SEVERITY.index(statuses[test]) >= BY_SEVERITY.index(status):
            continue
        statuses[test] = status
        short = strip_control(message)[:MESSAGE_CHARACTERS]
        if status != 'passed' and left >= len(short) > 0:
            messages[test] = short
            left -= len(short)
    return {'statuses': statuses, 'messages': messages}


ANSI = re.compile(r'\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])')
CONTROL = re.compile(r'[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]')


def strip_control(text):
    return CONTROL.sub('', ANSI.sub('', text))


UUID = re.compile(r'\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b')
ADDRESS = re.compile(r'\b0x[0-9a-fA-F]{6,16}\b')
PORT = re.compile(r'\b(localhost|\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}|\[::1?\]):\d{2,5}\b')
TIMING = re.compile(r'\s*\((?:took )?\d+(?:\.\d+)?\s?(?:ns|us|µs|ms|s|sec|seconds)\)\s*$')
TEMPORARY = re.compile(r'(?<![\w.])/(?:tmp|var/tmp|home/tests)/[^\s:,;\'")\]}]*')


def normalise_id(name, repository):
    """Returns an id that is the same in every run: addresses, ports, temporary paths and times are replaced."""
    text = strip_control(name).replace(repository + '/', '').replace(repository, '.')
    text = UUID.sub('<uuid>', text)
    text = ADDRESS.sub('<address>', text)
    text = PORT.sub(r'\1:<port>', text)
    text = TEMPORARY.sub('<path>', text)
    text = TIMING.sub('', text)
    text = ' '.join(text.split()) or '<unnamed>'
    if len(text) <= ID_CHARACTERS:
        return text
    return f'{text[:ID_CHARACTERS - 17]}…{hashlib.sha256(text.encode()).hexdigest()[:16]}'


def require(condition, message):
    if not condition:
        raise ValueError(message)


def text_of(value):
    """Returns the value if it is a string. Raises ValueError otherwise."""
    require(isinstance(value, str), f'{type(value).__name__} where a text is expected')
    return value


def parse_json(content):
    return json.loads(content.decode('utf-8'), parse_constant=lambda name: require(False, name))


def read_lines(content):
    """Parses the format of our own reporters: a JSON line for each test, and a last line with their number."""
    lines = [parse_json(line) for line in content.split(b'\n') if line.strip()]
    require(lines and lines[-1].get('end') == len(lines) - 1, 'the report has no end')
    return [to_case(text_of(line['id']), line['status'], text_of(line.get('message', ''))) for line in lines[:-1]]


def to_case(name, status, message):
    require(status in BY_SEVERITY, f'the status {status!r}')
    return name, status, message


JEST = {'passed': 'passed', 'failed': 'failed', 'pending': 'skipped', 'skipped': 'skipped', 'todo': 'skipped',
        'disabled': 'skipped', 'focused': 'skipped'}


def read_jest(content):
    """Parses the format of Jest, which Vitest writes too."""
    report, cases, tests = parse_json(content), [], []
    for suite in report['testResults']:
        results = suite['assertionResults']
        for result in results:
            name = ' > '.join(filter(None, [suite['name'], *result['ancestorTitles'], result['title']]))
            message = '\n'.join(map(text_of, result.get('failureMessages') or []))
            tests.append(to_case(name, JEST[result['status']], message))
        if suite['status'] == 'failed' and not any(result['status'] == 'failed' for result in results):
            cases.append((text_of(suite['name']), 'errored', text_of(suite.get('message') or '')))
    count = [sum(status == wanted for _, status, _ in tests) for wanted in ('passed', 'failed')]
    require(count == [report['numPassedTests'], report['numFailedTests']], 'its counts contradict its tests')
    require(len(tests) == report['numTotalTests'], 'it counts other tests than it names')
    cases += tests
    bad = any(status in ('failed', 'errored') for _, status, _ in cases)
    # Vitest reports no success if an error occurred outside of tests.
    if report['success'] is not True and not bad:
        cases.append(('<run>', 'errored', 'The runner reports a failure outside of tests.'))
    require(not (report['success'] is True and bad), 'it reports success in spite of failed tests')
    return cases


def read_mocha(content):
    report = parse_json(content)
    groups = {'passes': 'passed', 'failures': 'failed', 'pending': 'skipped'}
    cases = []
    for group, status in groups.items():
        require(len(report[group]) == report['stats'][group], f'it counts other {group} than it names')
        for test in report[group]:
            message = (test.get('err') or {}).get('message', '') if status == 'failed' else ''
            cases.append((f'{text_of(test.get("file") or "")} > {text_of(test["fullTitle"])}', status, text_of(message)))
    return cases


RSPEC = {'passed': 'passed', 'failed': 'failed', 'pending': 'skipped'}


def read_rspec(content):
    report = parse_json(content)
    summary = report['summary']
    cases = [
        to_case(
            f'{text_of(example["file_path"])} > {text_of(example["full_description"])}', RSPEC[example['status']],
            text_of((example.get('exception') or {}).get('message') or ''),
        )
        for example in report['examples']
    ]
    count = [sum(status == wanted for _, status, _ in cases) for wanted in ('failed', 'skipped')]
    require(count == [summary['failure_count'], summary['pending_count']], 'its counts contradict its examples')
    require(len(cases) == summary['example_count'], 'it counts other examples than it names')
    if summary['errors_outside_of_examples_count'] > 0:
        messages = '\n'.join(map(text_of, report.get('messages') or []))
        cases.append(('<outside of examples>', 'errored', messages))
    return cases


GO = {'pass': 'passed', 'fail': 'failed', 'skip': 'skipped'}


class GoPackage:
    """Events of `go test -json` for one package. A test that was started counts as errored until it ends."""

    def __init__(self):
        self.end = None
        self.failed_build = None
        self.tests = {}
        self.output = {}

    def add_event(self, event):
        action, test = event['Action'], event.get('Test')
        if action == 'output':
            if len(self.output.get(test, '')) < MESSAGE_CHARACTERS:
                self.output[test] = self.output.get(test, '') + text_of(event['Output'])
        elif test is None:
            self.end = GO.get(action, self.end)
            self.failed_build = event.get('FailedBuild')
        elif action == 'run':
            self.tests.setdefault(text_of(test), []).append('errored')
        elif action in GO:
            statuses = self.tests.setdefault(text_of(test), [])
            if statuses and statuses[-1] == 'errored':
                statuses.pop()
            statuses.append(GO[action])


def read_go(content):
    """Parses the events of `go test -json`. A package that failed without a failed test is an errored case."""
    packages, compiler = {}, {}
    for line in content.split(b'\n'):
        if not line.startswith(b'{'):
            continue  # output of the compiler
        event = parse_json(line)
        if 'Package' in event:
            packages.setdefault(text_of(event['Package']), GoPackage()).add_event(event)
        elif event.get('Action') == 'build-output':
            build = text_of(event['ImportPath'])
            compiler[build] = (compiler.get(build, '') + text_of(event['Output']))[:MESSAGE_CHARACTERS]
    cases = []
    for name, package in packages.items():
        require(package.end is not None, f'{name} has no end')
        ends = [(test, status) for test, found in package.tests.items() for status in found]
        bad = any(status in ('failed', 'errored') for _, status in ends)
        require(package.end == 'failed' or not bad, f'{name} passed with a failed test')
        cases += [(f'{name}::{test}', status, package.output.get(test, '')) for test, status in ends]
        if package.end == 'failed' and not bad:
            cases.append((name, 'errored', compiler.get(package.failed_build, '') + package.output.get(None, '')))
    return cases


READERS = {
    'junit': read_junit, 'junit-files': read_junit, 'ctest': read_ctest, 'lines': read_lines, 'jest': read_jest, 'mocha': read_mocha,
    'rspec': read_rspec, 'go': read_go, 'libtest': read_libtest,
}
