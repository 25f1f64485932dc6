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
