import bash from 'highlight.js/lib/languages/bash'
import c from 'highlight.js/lib/languages/c'
import cpp from 'highlight.js/lib/languages/cpp'
import csharp from 'highlight.js/lib/languages/csharp'
import css from 'highlight.js/lib/languages/css'
import go from 'highlight.js/lib/languages/go'
import ini from 'highlight.js/lib/languages/ini'
import java from 'highlight.js/lib/languages/java'
import javascript from 'highlight.js/lib/languages/javascript'
import json from 'highlight.js/lib/languages/json'
import kotlin from 'highlight.js/lib/languages/kotlin'
import php from 'highlight.js/lib/languages/php'
import python from 'highlight.js/lib/languages/python'
import ruby from 'highlight.js/lib/languages/ruby'
import rust from 'highlight.js/lib/languages/rust'
import sql from 'highlight.js/lib/languages/sql'
import swift from 'highlight.js/lib/languages/swift'
import typescript from 'highlight.js/lib/languages/typescript'
import xml from 'highlight.js/lib/languages/xml'
import yaml from 'highlight.js/lib/languages/yaml'
import { createLowlight } from 'lowlight'

// This file is loaded when the first diff is shown.

const lowlight = createLowlight({
  bash,
  c,
  cpp,
  csharp,
  css,
  go,
  ini,
  java,
  javascript,
  json,
  kotlin,
  php,
  python,
  ruby,
  rust,
  sql,
  swift,
  typescript,
  xml,
  yaml,
})

/** Extensions of the files in each language, separated by spaces. */
const EXTENSIONS: Record<string, string> = {
  bash: 'sh bash zsh',
  c: 'c h',
  cpp: 'cc cpp cxx hpp hh hxx',
  csharp: 'cs',
  css: 'css scss less',
  go: 'go',
  ini: 'toml ini cfg',
  java: 'java',
  javascript: 'js jsx mjs cjs',
  json: 'json',
  kotlin: 'kt kts',
  php: 'php',
  python: 'py pyi',
  ruby: 'rb rake',
  rust: 'rs',
  sql: 'sql',
  swift: 'swift',
  typescript: 'ts tsx mts cts',
  xml: 'xml html htm vue svelte svg',
  yaml: 'yaml yml',
}
const LANGUAGES_BY_EXTENSION = new Map(
  Object.entries(EXTENSIONS).flatMap(([language, extensions]) =>
    extensions.split(' ').map((extension) => [extension, language] as const),
  ),
)

/** Returns the language of a file by its extension. */
export const findLanguage = (path: string): string | undefined =>
  LANGUAGES_BY_EXTENSION.get(/\.(\w+)$/.exec(path)?.[1]?.toLowerCase() ?? '')

/** Part of a line. The class `code-<kind>` sets its colour; plain text has no kind. */
type HighlightedPart = { text: string; kind: string | undefined }

/** Longer lines stay plain, because grammars are slow on them. */
const LINE_LENGTH_MAX = 400

/** Splits a line into parts. Each line is parsed alone, so strings over several lines are not recognised. */
export function highlightLine(line: string, language: string): HighlightedPart[] {
  if (line.length > LINE_LENGTH_MAX) return [{ text: line, kind: undefined }]
  return lowlight.highlight(language, line).children.flatMap((node) => toParts(node, undefined))
}

type SyntaxNode = ReturnType<typeof lowlight.highlight>['children'][number]

function toParts(node: SyntaxNode, kind: string | undefined): HighlightedPart[] {
  if (node.type === 'text') return [{ text: node.value, kind }]
  if (node.type !== 'element') return []
  const classNames = Array.isArray(node.properties.className) ? node.properties.className.join(' ') : ''
  const childKind = findKind(classNames) ?? kind
  return node.children.flatMap((child) => toParts(child, childKind))
}

/** Kinds of parts, each with the classes that highlight.js gives them. The first match counts. */
const KINDS: [kind: string, classes: RegExp][] = [
  ['comment', /hljs-(comment|doctag|quote)/],
  ['string', /hljs-(string|regexp|char|addition)/],
  ['number', /hljs-(number|literal|symbol|variable constant_)/],
  ['name', /hljs-(title|attr|attribute|name|section|property)/],
  ['type', /hljs-(type|built_in|class)/],
  ['keyword', /hljs-(keyword|meta|tag|selector)/],
]

const findKind = (classNames: string): string | undefined => KINDS.find(([, classes]) => classes.test(classNames))?.[0]
