import type { TreeFacts } from '../suite.ts'
import {
  escapePattern,
  hasFile,
  type LanguageEcosystem,
  mentions,
  type Runner,
  renderPaths,
  SELECTED_TESTS,
  type StubbedName,
  type StubValue,
  USUAL_EXITS,
} from './language.ts'
import { chooseBase, findIndexDay, findOlderBase, type PythonBase } from './python-base.ts'
import {
  isPackage,
  isRequirement,
  listConstraints,
  listPipfilePackages,
  listPublishedNames,
  listRequirements,
  listTestExtras,
} from './python-project.ts'
import { completeRecipe, DEPS, type EnvRecipe, listFilesNamed, quoteWord, SYSTEM_PATH } from './recipe.ts'

const VENV = `${DEPS}/venv`
/** Words for tests and development in the names of requirement files. */
const DEVELOPMENT = 'dev|develop|development|test|tests|testing'
/** Matches the paths of requirement files that are installed. */
const REQUIREMENTS = new RegExp(
  `^(requirements\\.txt|requirements[-_](${DEVELOPMENT})\\.txt|(${DEVELOPMENT})[-_]requirements\\.txt|requirements/(base|main|${DEVELOPMENT})\\.txt)$`,
)
/** Matches a requirement on the repository itself, which is not copied yet. Bounded to one line to stay linear. */
const INSTALLS_ITSELF = /^[ \t]*(-e[ \t]+|--editable[ =])?\.{1,2}(\[|\/|\s|$)/m
/** Clients of database servers that are published without compiled code. */
const COMPILED_CLIENT = /^(?:psycopg2|psycopg-c|mysqlclient|pylibmc)(?![\w-])|^psycopg\[[^\]]*\bc\b/i
/** Files of a project that a compiler has to translate. */
const NATIVE_SOURCE = /\.(pyx|pxd|c|cc|cpp|rs|f90)$/

/** Virtual environment of the installer uv, separate so that tests do not see its packages. */
const TOOLS = `${DEPS}/tools`
const CONSTRAINTS = `${DEPS}/constraints.txt`
const UV_VERSION = '0.13.7'

type PythonInstallOptions = { indexDay: string | undefined; isConstrained: boolean }

/** Returns a shell line that installs with the certificates of the image. Packages published after `indexDay` are ignored. */
const renderInstall = (words: string, { indexDay, isConstrained }: PythonInstallOptions): string =>
  [
    'SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt',
    `${TOOLS}/bin/uv pip install --no-cache`,
    ...(indexDay === undefined ? [] : [`--exclude-newer ${indexDay}`]),
    ...(isConstrained ? [`-c ${CONSTRAINTS}`] : []),
    words,
  ].join(' ')

/**
 * Creates a virtual environment outside of the tree and installs the package in editable mode, so that a fix takes
 * effect. Versions are those of the lock files; what is not locked is installed as of the base commit.
 */
function buildRecipe(
  tree: TreeFacts,
  landed: TreeFacts | undefined,
  runner: string,
  python: PythonBase = chooseBase(tree),
): EnvRecipe {
  const files = [...tree.paths].filter((path) => REQUIREMENTS.test(path)).sort()
  // A file that requires the repository itself can be installed only after the tree is copied.
  const filesBeforeTree = files.filter((path) => !INSTALLS_ITSELF.test(tree.texts.get(path) ?? ''))
  const filesAfterTree = files.filter((path) => !filesBeforeTree.includes(path))
  const declared = [...listRequirements(tree), ...listPipfilePackages(tree), ...(runner === 'pytest' ? ['pytest'] : [])]
  const isNative = [...tree.paths].some((path) => NATIVE_SOURCE.test(path) && !/(^|\/)(tests?|docs?)\//.test(path))
  const hasClient = [...declared, ...listRequirementLines(tree)].some((each) => COMPILED_CLIENT.test(each))
  const extras = listTestExtras(tree)
  const ownPackage = `.${extras.length === 0 ? '' : `[${extras.join(',')}]`}`
  const constraints = listConstraints(tree)
  const indexDay = findIndexDay(tree, python)
  const install = (words: string) => renderInstall(words, { indexDay, isConstrained: constraints.length > 0 })
  const installFile = (path: string): string => install(`-r ${quoteWord(path)}`)
  return completeRecipe({
    runner,
    base: python.base,
    aptPackages: [
      'python3-venv',
      ...(isNative || hasClient ? ['build-essential', ...(python.hasDebianPython ? ['python3-dev'] : [])] : []),
      ...(hasClient ? ['pkgconf'] : []),
    ],
    env: {
      VIRTUAL_ENV: VENV,
      PATH: `${VENV}/bin:${SYSTEM_PATH}`,
      PIP_NO_CACHE_DIR: '1',
      PIP_DISABLE_PIP_VERSION_CHECK: '1',
      PIP_ROOT_USER_ACTION: 'ignore',
      PYTHONDONTWRITEBYTECODE: '1',
    },
    manifests:
      filesBeforeTree.length === 0
        ? []
        : listFilesNamed(tree, /requirements[\w.-]*\.(txt|in)$|^constraints[\w.-]*\.txt$/i).concat(
            listRequirementFolder(tree.paths),
          ),
    setup: [
      // The pip of Debian, unlike others, trusts the certificates of the image.
      `/usr/bin/python3 -m venv ${TOOLS}`,
      `${TOOLS}/bin/pip install uv==${UV_VERSION}`,
      `python3 -m venv ${VENV}`,
      ...renderConstraints(constraints),
      // Old packages need setuptools without declaring it.
      install(`'setuptools<81' wheel`),
      ...(declared.length === 0 ? [] : [install([...new Set(declared)].map(quoteWord).join(' '))]),
      ...filesBeforeTree.map(installFile),
    ],
    build: [
      ...(isPackage(tree) ? [install(`-e ${quoteWord(ownPackage)}`)] : []),
      ...filesAfterTree.map(installFile),
      ...renderChangedInstall(tree, landed, (words) => renderInstall(words, { indexDay, isConstrained: false })),
    ],
  })
}

/** Returns the recipe with an older Python of a tree that `chooseBase` finds no fitting Python for. */
function buildOlderRecipe(tree: TreeFacts, landed: TreeFacts | undefined, runner: string): EnvRecipe | undefined {
  const python = findOlderBase(tree)
  return python && buildRecipe(tree, landed, runner, python)
}

/**
 * Returns a line that installs requirements that the landed manifests add or change, without the base's constraints. Not all
 * of them are for tests: those that cannot be built or found are left out.
 */
function renderChangedInstall(
  tree: TreeFacts,
  landed: TreeFacts | undefined,
  install: (words: string) => string,
): string[] {
  if (landed === undefined) return []
  const before = new Set([...listRequirements(tree), ...listRequirementLines(tree)])
  const changed = [...listRequirements(landed), ...listRequirementLines(landed)].filter((each) => !before.has(each))
  if (changed.length === 0) return []
  const words = [...new Set(changed)].map(quoteWord).join(' ')
  const installEach = `for each in "$@"; do ${install('"$each"')} || ${HAS_NO_PACKAGE} || exit 1; done`
  return [`set -- ${words}; ${install('"$@"')} || { ${HAS_NO_PACKAGE} && ${installEach}; }`]
}

/** Exit code of uv for a package that cannot be built or found. Failures of the network have another one. */
const HAS_NO_PACKAGE = '[ $? -eq 1 ]'

/** Lists the plain requirements of requirement files. */
const listRequirementLines = ({ texts }: TreeFacts): string[] =>
  [...texts]
    .filter(([path]) => REQUIREMENTS.test(path))
    .flatMap(([, text]) => text.split('\n').map((line) => line.replace(/(?<!\s)\s+#.*$/, '').trim()))
    .filter(isRequirement)

/** Number of constraints that one shell line writes. Keeps every line far below the length limit of a recipe. */
const CONSTRAINTS_PER_LINE = 100

const renderConstraints = (constraints: readonly string[]): string[] =>
  Array.from({ length: Math.ceil(constraints.length / CONSTRAINTS_PER_LINE) }, (_, index) => {
    const words = constraints.slice(index * CONSTRAINTS_PER_LINE, (index + 1) * CONSTRAINTS_PER_LINE).map(quoteWord)
    return `printf '%s\\n' ${words.join(' ')} >> ${CONSTRAINTS}`
  })

/** Lists the files of the folder `requirements`, except those that are listed by their own names. */
const listRequirementFolder = (paths: ReadonlySet<string>): string[] =>
  [...paths]
    .filter((path) => {
      const [, name] = /^requirements\/([^/]+\.(?:txt|in))$/.exec(path) ?? []
      return name !== undefined && !/requirements[\w.-]*\.(txt|in)$/i.test(name)
    })
    .sort()

/** Defines functions in the module, and methods on every class of the module. */
function writeStubs(names: readonly StubbedName[], value: StubValue): string {
  const result = { nothing: 'None', true: 'True', false: 'False' }[value]
  return `for _name in ${JSON.stringify(names.map(({ name }) => name))}:
    _stub = lambda *_a, **_k: ${result}
    for _value in list(globals().values()):
        if isinstance(_value, type) and _value.__module__ == __name__ and not hasattr(_value, _name):
            setattr(_value, _name, _stub)
    globals().setdefault(_name, _stub)`
}

const ARTEFACTS = ['__pycache__/', '*.egg-info/', '.eggs/', '.pytest_cache/']

/** Shell word for the first Python in the PATH of the image. */
const PYTHON = '"$(command -v python || command -v python3)"'

/** Files that Python loads implicitly or that configure its test runners. */
const PYTHON_SETTINGS = [
  'sitecustomize.py',
  'usercustomize.py',
  '*.pth',
  '*.egg-link',
  'pyvenv.cfg',
  // Metadata of installed packages can load plugins, and compiled files are loaded instead of their sources.
  '*.dist-info/',
  '*.egg-info/',
  '*.egg',
  '__pycache__/',
  '*.pyc',
  'setup.cfg',
  'pyproject.toml',
  'tox.ini',
]

const PYTHON_TEST_FILE: RegExp = /(^|\/)(test_[^/]*|[^/]*_tests?|tests?)\.py$/

/** Files that may mention the test runner of a Python project. */
const FILES_NAMING_RUNNER = ['pyproject.toml', 'setup.cfg', 'setup.py', 'tox.ini', 'noxfile.py', 'Pipfile', 'Makefile']
const RUNNER_REQUIREMENTS = /^(requirements[^/]*|[^/]*requirements|requirements\/.*|test-requirements)\.(txt|in)$/

/** Matches test functions, which only pytest runs, and imports of pytest. */
const PYTEST_CODE = /^(?:import pytest\b|from pytest\b|(?:async )?def test_)/m

const SHUFFLE_PLUGIN = { name: 'pytest_shuffle_by_seed.py', file: 'pytest-shuffle.py' }
const SELECT_PLUGIN = { name: 'pytest_select.py', file: 'pytest-select.py' }
/** Program that prints the options of the project that select tests. */
const OPTIONS_PROGRAM = { name: 'pytest_options.py', file: 'pytest-options.py' }

/**
 * Keeps only those options of the project that select tests; others request coverage and reports. A file that cannot be
 * loaded does not stop the others.
 */
export const pytest: Runner = {
  id: 'pytest',
  name: 'pytest',
  report: 'junit',
  shuffles: true,
  selects: true,
  isFallback: false,
  detect: (tree) =>
    hasFile(tree, (path) => /(^|\/)(conftest\.py|pytest\.ini|\.pytest\.ini|pytest\.toml)$/.test(path)) ||
    [...FILES_NAMING_RUNNER, ...[...tree.paths].filter((path) => RUNNER_REQUIREMENTS.test(path))].some((path) =>
      mentions(tree, path, /\bpytest\b/),
    ) ||
    hasFile(tree, (path) => PYTHON_TEST_FILE.test(path) && mentions(tree, path, PYTEST_CODE)),
  isTarget: (path) => PYTHON_TEST_FILE.test(path),
  command({ targets, seed, only = null }) {
    const seedVariable = seed === null ? '' : `ASSAY_SEED=${seed} `
    const plugins = [...(seed === null ? [] : ['pytest_shuffle_by_seed']), ...(only === null ? [] : ['pytest_select'])]
    const path = plugins.length === 0 ? '' : `PYTHONPATH="$ASSAY_TOOLS\${PYTHONPATH:+:$PYTHONPATH}" `
    const pluginFlags = plugins.map((name) => ` -p ${name}`).join('')
    const projectOptions = `PYTEST_ADDOPTS="$(/usr/bin/python3 -I -B "$ASSAY_TOOLS/${OPTIONS_PROGRAM.name}")" `
    return `${projectOptions}${path}${seedVariable}${PYTHON} -m pytest${pluginFlags} -q -p no:cacheprovider -o addopts= -o junit_family=xunit1 --continue-on-collection-errors --junitxml="$ASSAY_REPORT/report"${renderPaths(targets)}`
  },
  prepare: [],
  exits: USUAL_EXITS,
  settings: [...PYTHON_SETTINGS, 'conftest.py', 'pytest.ini', '.pytest.ini', 'pytest.toml', '.pytest.toml'],
  tools: [SHUFFLE_PLUGIN, SELECT_PLUGIN, OPTIONS_PROGRAM],
}

/** Python's built-in runner. It has no machine-readable report, so a custom result class writes one. */
const unittest: Runner = {
  id: 'unittest',
  name: 'unittest',
  report: 'lines',
  shuffles: true,
  selects: true,
  isFallback: true,
  detect: (tree) => hasFile(tree, (path) => PYTHON_TEST_FILE.test(path)),
  isTarget: (path) => PYTHON_TEST_FILE.test(path),
  command({ targets, seed, only = null }) {
    const seedVariable = seed === null ? '' : `ASSAY_SEED=${seed} `
    const selectedVariable = only === null ? '' : `ASSAY_SELECTED="$ASSAY_TOOLS/${SELECTED_TESTS}" `
    return `${seedVariable}${selectedVariable}${PYTHON} "$ASSAY_TOOLS/unittest_report.py" "$ASSAY_REPORT/report"${renderPaths(targets)}`
  },
  prepare: [],
  exits: USUAL_EXITS,
  settings: [...PYTHON_SETTINGS, 'unittest/'],
  tools: [{ name: 'unittest_report.py', file: 'unittest-report.py' }],
}

export const python: LanguageEcosystem = {
  id: 'python',
  sources: [
    {
      name: 'python',
      extensions: ['py', 'pyx', 'pyi'],
      comments: 'hash',
      singleQuote: 'string',
      hasInlineTests: false,
    },
  ],
  tests: {
    names: [/^test_.+\.py$/, /_tests?\.py$/, /^tests?\.py$/],
    support: [/^conftest\.py$/],
    extensions: ['.py'],
  },
  dependencyFiles: ['poetry.lock', 'uv.lock', 'pdm.lock', 'pipfile', 'pipfile.lock'],
  buildFiles: [
    'pyproject.toml',
    'setup.py',
    'setup.cfg',
    'tox.ini',
    'noxfile.py',
    'pytest.ini',
    'conftest.py',
    'manage.py',
    '.python-version',
    'pipfile',
    'pipfile.lock',
    'uv.lock',
    'poetry.lock',
    'pdm.lock',
  ],
  buildFilePatterns: [/^(?:[\w-]+-)?requirements[\w.-]*\.(?:txt|in)$/i],
  readTestFiles: /\.py$/,
  publishedPackages: (tree) => listPublishedNames(tree).map((name) => ({ name })),
  publishedCopy: (name) =>
    `/(?i:${name
      .split(/[-_.]+/)
      .map(escapePattern)
      .join('[-_.]+')})-[^-/]+\\.(?:dist|egg)-info$`,
  runners: [
    {
      runner: pytest,
      buildRecipe: (tree, landed) => buildRecipe(tree, landed, pytest.id),
      buildOlderRecipe: (tree, landed) => buildOlderRecipe(tree, landed, pytest.id),
      artefacts: ARTEFACTS,
      buildArgs: [],
    },
    {
      runner: unittest,
      buildRecipe: (tree, landed) => buildRecipe(tree, landed, unittest.id),
      buildOlderRecipe: (tree, landed) => buildOlderRecipe(tree, landed, unittest.id),
      artefacts: ARTEFACTS,
      buildArgs: [],
    },
  ],
  hidesModules: true,
  testConfiguration: ['pytest[.]ini', 'tox[.]ini', 'setup[.]cfg', 'conftest[.]py'],
  stubs: [{ files: /\.py$/, when: 'always', write: writeStubs }],
}
