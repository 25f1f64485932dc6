/**
 * A pattern of code that makes a verifier weak. `together`: a pattern that must be present too. `unless`: a pattern whose
 * presence makes the code harmless.
 */
type CodeSign = { pattern: RegExp; together?: RegExp; unless?: RegExp; reason: string }

/** Joins patterns of one sign. */
const anyOf = (...patterns: readonly RegExp[]): RegExp =>
  new RegExp(patterns.map(({ source }) => source).join('|'), 'm')

/** A field of loaded data. Constants and names of expected values, such as `EXPECTED` and `case`, are left out. */
const FIELD =
  /(?<![\w.])(?!\w*(?:case|environ|expected|fixture|golden|reference|test|truth|want))[a-z_]\w*(?:\[["'f]|\.get\(\s*["'])/
const TESTS_FOLDER = /(?:["']\/tests\b|__file__)/

/** Signs that tests execute or load files of the submission, or connect to a process that the agent left running. */
export const CODE_SIGNS: Readonly<Record<'py' | 'js', readonly CodeSign[]>> = {
  py: [
    {
      pattern: anyOf(
        /\bsubprocess\b|\bos\.(?:system|popen|exec\w*|spawn\w*|posix_spawn\w*)\b|\bfrom os import\b|\bpexpect\b|\bpty\b/,
        /create_subprocess|\b(?:import|from) (?:git|docker|fabric|invoke|sh|plumbum)\b|\b(?:nbconvert|nbclient|papermill)\b/,
        /\bpopen_(?:uci|xboard)\b|\bchess\.engine\b|\bread_clipboard\b/,
        /(?<!platform)\.(?:system|popen|posix_spawnp?|spawn[lv]\w*|exec[lv][ep]*)\(/,
      ),
      reason: 'starts programs',
    },
    {
      pattern: anyOf(
        /\bimportlib\b|\b__import__\b|(?<![.\w])compile\(|\brunpy\b|\bctypes\b|\bcffi\b|\bsys\.path\b|\bsyspath_prepend\b|\bpytest_plugins\b|\baddsitedir\b/,
        /\bpytest\.main\b|(?<!\w)patch\(\s*(?![rf]?["'\s)]|target\s*=\s*["'])/,
        /\b(?:globals|vars|locals)\(\)(?:\.update|\s*\[)|\b__dict__\.update\b/,
        /\bload_extension\b|\b(?:import|from) (?:jinja2|mako)\b|\bbuiltins\b|\b__builtins__|\b__(?:globals|subclasses)__/,
        // Functions that execute a string as code, also under another name.
        /\b(?:exec|eval)\s*\(|=\s*(?:exec|eval)\b|[(,]\s*(?:exec|eval)\s*[,)]/,
        /\b(?:sympify|parse_expr|parse_latex|numexpr)\b|\.query\((?!\s*["'])|\b(?:timeit|cProfile|codeop)\b/,
        /\bprofile\.run|\b(?:import|from) trace\b|\btrace\.Trace\b|\bInteractive(?:Interpreter|Console)\b|\bcode\.interact\b/,
        /\b(?:skipif|xfail)\(\s*(?:condition\s*=\s*)?[rfRF]*["']/,
        // Functions that find code by its name or its folder.
        /\blogging\.config\b|\bfrom logging import .*\bconfig\b|\b(?:file|dict)Config\b|\bdoctest\b/,
        /\bloadTests\w*|\b(?:default)?TestLoader\b|\.discover\(|\bget_type_hints\b|\b(?:zipimport|pydoc|resolve_name)\b/,
      ),
      reason: 'loads code',
    },
    {
      pattern: anyOf(
        /\b\w*[pP]ickle\b|\bdill\b|\bjoblib\b|\bshelve\b|\bmarshal\b|read_pickle|read_hdf|HDFStore|torch\.load/,
        /allow_pickle\s*=\s*True|yaml\.(?:unsafe_load|full_load|load)(?:_all)?\(|\bUnsafeLoader\b|load_model\(/,
        /\bimport yaml as\b|\bfrom yaml import .*\b(?:unsafe_|full_)?load\b|\btyp\s*=\s*["']unsafe|\btrusted\s*=\s*True/,
      ),
      reason: 'loads data that can contain code',
    },
    {
      // A link that stays inside the submission can lead to the expected answer from another place.
      pattern:
        /\bsymlinks\s*=\s*True|\bfollow_symlinks\s*=\s*False|\bshutil\.move\(|\bos\.(?:rename|renames|replace)\(/,
      reason: 'moves links of the submission to another place',
    },
    { pattern: /\btarfile\b|\bunpack_archive\b/, reason: 'unpacks archives of the submission' },
    {
      // An array that is stored with its shape, such as (0, 2, 2), can be empty and broadcast to that of the answer.
      pattern: /\b(?:np|numpy)\.(?:load|memmap)\(|\bload_npz\(|\bloadmat\(/,
      together: /\b(?:allclose|isclose)\(|\b(?:np|numpy)\.(?:all|any)\(|\.(?:all|any)\(/,
      unless:
        /\.(?:shape|size|ndim)\b|\b(?:len|np\.shape|array_equal|assert_(?:allclose|array_equal|array_almost_equal))\(/,
      reason: 'compares arrays that can be empty',
    },
    {
      // A submission that is empty, or a picture of one point, has little in common with the answer.
      pattern: anyOf(
        /\bmin\(\s*len\([^()\n]{0,80}\)\s*,\s*len\(/,
        /\bmin\([^(),\n]{0,80}\.(?:shape|size|width|height)\b[^(),\n]{0,20},[^()\n]{0,80}\.(?:shape|size|width|height)\b/,
        /\bmin\([^()\n]{1,80}\)[^\n]{0,40}\bzip\([^()\n]{0,80}\.(?:shape|size)\b/,
        /\bzip\([^\n]{0,200}\.getdata\(\)/,
      ),
      unless: /(?:\blen\([^\n]{0,200}\)|\.(?:shape|size|width|height)(?:\[[^\]\n]{0,20}\])?)\s*(?:[=!]=|>=)/,
      reason: 'compares only the part that two values have in common',
    },
    {
      // Two files of the same size and time of change are taken for equal unless `shallow` is false.
      pattern: /\bfilecmp\.\w+\(|\bfrom filecmp import\b/,
      unless: /\bshallow\s*=\s*False/,
      reason: 'compares files by their size and time',
    },
    {
      pattern: anyOf(
        new RegExp(`\\b(?:copy\\w*|move)\\([^\\n]{0,300},[^\\n]{0,300}${TESTS_FOLDER.source}`),
        new RegExp(`\\bextract(?:all)?\\([^\\n]{0,300}${TESTS_FOLDER.source}`),
        new RegExp(`\\bopen\\([^\\n]{0,300}${TESTS_FOLDER.source}[^\\n]{0,300},\\s*(?:mode\\s*=\\s*)?["'][wax]`),
        new RegExp(`${TESTS_FOLDER.source}[^\\n]{0,300}\\.write_(?:text|bytes)\\(`),
      ),
      reason: 'writes into the folder of the tests',
    },
    {
      pattern: anyOf(
        /\bresolve_entities\s*=\s*True|\bload_dtd\s*=\s*True|\bxinclude\b|\bElementInclude\b|\bXSLT\b/,
        new RegExp(`\\b(?:open|Path|joinpath|path\\.join)\\([^\\n);]{0,200}?${FIELD.source}`),
        new RegExp(`(?:["')]|_DIR|_ROOT|_dir|_root) / (?:str\\()?${FIELD.source}`),
      ),
      reason: 'reads files that the submission can name',
    },
    {
      // Before version 5, lxml expands external entities by default.
      pattern: /\b(?:from|import) lxml\b|\bread_xml\(/,
      unless: /\bresolve_entities\s*=\s*False|\bparser\s*=\s*["']etree["']/,
      reason: 'reads files that the submission can name',
    },
    {
      pattern: /localhost|127\.0\.0\.1|0\.0\.0\.0|\bsocket\b|\bparamiko\b|\bselenium\b|\bplaywright\b/,
      reason: 'connects to a process of the submission',
    },
  ],
  js: [
    {
      pattern: anyOf(
        /\brequire\(|\bimport\b|\bchild_process\b|\bfetch\(|\bgetBuiltinModule\b|\bWebAssembly\b/,
        /\b(?:eval|Function)\b|\bprocess\.(?:binding|dlopen|mainModule)\b/,
      ),
      reason: 'loads code',
    },
    {
      // A missing number is NaN, and every comparison with NaN is false.
      pattern: /\bMath\.abs\([^\n]{1,200}\)\s*>/,
      reason: 'accepts NaN of the submission as a number within bounds',
    },
  ],
}

const words = (text: string): ReadonlySet<string> => new Set(text.trim().split(/\s+/))

/**
 * Modules that read data without executing it; functions of them that do are among the code signs. Their submodules are
 * allowed too.
 */
const DATA_PACKAGES = words(`
  __future__ abc array ast base64 binascii bisect bz2 calendar cmath codecs collections configparser contextlib copy csv
  dataclasses datetime decimal difflib email enum errno filecmp fnmatch fractions functools glob grp gzip hashlib heapq
  hmac html io ipaddress itertools json locale lzma math mimetypes numbers operator os pathlib platform plistlib pprint
  pwd queue random re secrets shutil signal sqlite3 stat statistics string struct sys tempfile textwrap threading time
  tomllib traceback types typing unicodedata unittest uuid warnings wave xml zipfile zlib zoneinfo
  Crypto PIL bcrypt bs4 chess cryptography cv2 dateutil defusedxml jsonschema jwt lxml networkx numpy openpyxl pandas
  pyarrow pypdf PyPDF2 pytest pytz scipy skimage soundfile toml tomli unidiff yaml
`)
/** Modules of packages whose other modules start programs, open connections or load code. */
const DATA_MODULES = words('asyncio concurrent.futures logging urllib.parse')

const IMPORT = /^(?:.*:)?\s*(?:from\s+([\w.]+)\s+import\b|import\s+([^#]+))/

/** Returns a module that Python code imports and that is neither known to only read data nor one of `ownModules`. */
export const findUnknownModule = (code: string, ownModules: ReadonlySet<string>): string | undefined =>
  code
    .split(/[\n;]/)
    .flatMap(listImports)
    .find((name) => !isKnown(name, ownModules))

function listImports(statement: string): string[] {
  const [, from, list] = IMPORT.exec(statement) ?? []
  return from === undefined ? (list?.split(',').map(toModuleName) ?? []) : [from]
}

/** Removes the name that an import gives to a module. */
const toModuleName = (text: string): string => text.trim().split(/\s/, 1)[0] ?? ''

function isKnown(name: string, ownModules: ReadonlySet<string>): boolean {
  const [top = ''] = name.split('.')
  return top === '' || DATA_PACKAGES.has(top) || DATA_MODULES.has(name) || ownModules.has(top)
}
