import type { Template, Variable } from './task.ts'

const WHOLE = /^\$\{([^}:]+)(?::-([^\n]*))?\}$/

/** Parses a value of task.toml, which is either a single variable or plain text, as in Harbor. */
export function parseWholeTemplate(text: string): Template {
  const match = WHOLE.exec(text)
  if (!match) return text === '' ? [] : [text]
  const [, variable = '', fallback = null] = match
  return [{ variable, fallback }]
}

/** A fallback ends before the next `${`, so that the search is linear. */
const BRACED = /\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:[^}$]|\$(?!\{))*))?\}/g

/** Parses a string such as `Bearer ${TOKEN}`. Returns undefined for an invalid `${`. */
export function parseBracedTemplate(text: string): Template | undefined {
  const template = splitTemplate(text, BRACED, ([, variable = '', fallback = null]) => ({ variable, fallback }))
  const isInvalid = template.some((part) => (typeof part === 'string' ? part : (part.fallback ?? '')).includes('${'))
  return isInvalid ? undefined : template
}

const COMPOSE = /\$(?:(\$)|([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?::?-([^}$]*))?\})/g

/**
 * Parses the variables of a compose file: also `$NAME`, `$$` for a dollar sign, and an empty string for an unset variable.
 * Returns undefined for unsupported syntax such as `${A:?b}`.
 */
export function parseComposeTemplate(text: string): Template | undefined {
  const template = splitTemplate(text, COMPOSE, ([, dollar, bare, braced = '', fallback = '']) =>
    dollar ? DOLLAR : { variable: bare ?? braced, fallback },
  )
  if (template.some((part) => typeof part === 'string' && part.includes('$'))) return undefined
  return mergeTexts(template.map((part) => (part === DOLLAR ? '$' : part)))
}

/** Stands for `$$` until all other dollar signs have been checked. */
const DOLLAR: Variable = { variable: '$', fallback: null }

function splitTemplate(text: string, pattern: RegExp, toVariable: (match: RegExpExecArray) => Variable): Template {
  const parts: Template = []
  let end = 0
  for (const match of text.matchAll(pattern)) {
    parts.push(text.slice(end, match.index), toVariable(match))
    end = match.index + match[0].length
  }
  return [...parts, text.slice(end)].filter((part) => part !== '')
}

function mergeTexts(template: Template): Template {
  const parts: Template = []
  for (const part of template) {
    const before = parts.at(-1)
    if (typeof part === 'string' && typeof before === 'string') parts.splice(-1, 1, before + part)
    else parts.push(part)
  }
  return parts
}

/** Returns the text of a template, or undefined if it contains variables. */
export function toPlainText(template: Template): string | undefined {
  const texts = template.filter((part) => typeof part === 'string')
  return texts.length === template.length ? texts.join('') : undefined
}

export const variablesOf = (template: Template): Variable[] => template.filter((part) => typeof part !== 'string')

/** Formats a template with its variables in braces. */
export const formatTemplate = (template: Template): string =>
  template.map((part) => (typeof part === 'string' ? part : formatVariable(part))).join('')

const formatVariable = ({ variable, fallback }: Variable): string =>
  fallback === null ? `\${${variable}}` : `\${${variable}:-${fallback}}`
