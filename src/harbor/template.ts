import type { Template, Variable } from './task.ts'

const WHOLE = /^\$\{([^}:]+)(?::-([^\n]*))?\}$/

/** In task.toml a value is either one variable or plain text: Harbor looks no deeper. */
export function wholeTemplate(text: string): Template {
  const match = WHOLE.exec(text)
  if (!match) return text === '' ? [] : [text]
  const [, variable = '', fallback = null] = match
  return [{ variable, fallback }]
}

const BRACED = /\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g

/** `Bearer ${TOKEN}`: variables inside a text. Undefined when a brace is opened that begins none. */
export function bracedTemplate(text: string): Template | undefined {
  const template = split(text, BRACED, ([, variable = '', fallback = null]) => ({ variable, fallback }))
  const strange = template.some((part) => (typeof part === 'string' ? part : (part.fallback ?? '')).includes('${'))
  return strange ? undefined : template
}

const COMPOSE = /\$(?:(\$)|([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?::?-([^}$]*))?\})/g

/**
 * As compose files have it: `$NAME` too, `$$` is a dollar, and what nobody has set is empty. Undefined for what we do
 * not interpret, as `${A:?b}`.
 */
export function composeTemplate(text: string): Template | undefined {
  const template = split(text, COMPOSE, ([, dollar, bare, braced = '', fallback = '']) =>
    dollar ? DOLLAR : { variable: bare ?? braced, fallback },
  )
  if (template.some((part) => typeof part === 'string' && part.includes('$'))) return undefined
  return merged(template.map((part) => (part === DOLLAR ? '$' : part)))
}

const DOLLAR: Variable = { variable: '$', fallback: null }

function split(text: string, pattern: RegExp, variable: (match: RegExpExecArray) => Variable): Template {
  const parts: Template = []
  let end = 0
  for (const match of text.matchAll(pattern)) {
    parts.push(text.slice(end, match.index), variable(match))
    end = match.index + match[0].length
  }
  return [...parts, text.slice(end)].filter((part) => part !== '')
}

function merged(template: Template): Template {
  const parts: Template = []
  for (const part of template) {
    const before = parts.at(-1)
    if (typeof part === 'string' && typeof before === 'string') parts.splice(-1, 1, before + part)
    else parts.push(part)
  }
  return parts
}

/** Undefined when there are variables in it. */
export function plainText(template: Template): string | undefined {
  const texts = template.filter((part) => typeof part === 'string')
  return texts.length === template.length ? texts.join('') : undefined
}

export const variablesOf = (template: Template): Variable[] => template.filter((part) => typeof part !== 'string')

/** How the template was written, in braces. */
export const templateText = (template: Template): string =>
  template.map((part) => (typeof part === 'string' ? part : variableText(part))).join('')

const variableText = ({ variable, fallback }: Variable): string =>
  fallback === null ? `\${${variable}}` : `\${${variable}:-${fallback}}`
