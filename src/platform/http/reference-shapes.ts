import { html } from 'hono/html'

export type Markup = ReturnType<typeof html>
type Text = Markup | string

/** As much of JSON Schema as our shapes use. */
export type Shape = {
  type?: string | string[]
  properties?: Record<string, Shape>
  required?: string[]
  items?: Shape
  additionalProperties?: Shape | boolean
  enum?: unknown[]
  const?: unknown
  anyOf?: Shape[]
  oneOf?: Shape[]
  allOf?: Shape[]
  $ref?: string
  format?: string
  description?: string
  default?: unknown
  minimum?: number
  maximum?: number
}

export type Row = [name: Text, type: Text, text: Text]

export const table = (headings: readonly [string, string, string], rows: readonly Row[]): Text =>
  rows.length === 0
    ? ''
    : html`<table>
        <tr>${headings.map((heading) => html`<th scope="col">${heading}</th>`)}</tr>
        ${rows.map((cells) => html`<tr>${cells.map((cell) => html`<td>${cell}</td>`)}</tr>`)}
      </table>`

/** Of somebody who asks, fields are named that must be there; of an answer, those that may be missing. */
export type Marking = 'required' | 'optional'

/** The fields of a shape, and those of what lies in it without a name of its own: `scope.kind`, `checks[].ok`. */
export function fieldRows(shape: Shape, marking: Marking, prefix = ''): Row[] {
  const own = Object.entries(shape.properties ?? {}).flatMap(([name, field]): Row[] => [
    [
      html`<code>${prefix}${name}</code>`,
      typeOf(field),
      textOf(field, isMarked(shape, name, marking) ? marking : null),
    ],
    ...innerRows(field, marking, `${prefix}${name}`),
  ])
  return [...own, ...partsOf(shape).flatMap((part) => fieldRows(part, marking, prefix))]
}

function innerRows(field: Shape, marking: Marking, path: string): Row[] {
  if (field.items) return innerRows(field.items, marking, `${path}[]`)
  const values = valuesOf(field)
  if (values) return innerRows(values, marking, `${path}{}`)
  const inner = partsOf(field).flatMap((part) => innerRows(part, marking, path))
  return [...fieldRows({ ...field, ...NO_PARTS }, marking, `${path}.`), ...inner]
}

const NO_PARTS = { anyOf: [], oneOf: [], allOf: [] }

export const partsOf = ({ anyOf = [], oneOf = [], allOf = [] }: Shape): Shape[] => [...anyOf, ...oneOf, ...allOf]

const valuesOf = ({ additionalProperties, properties }: Shape): Shape | undefined =>
  typeof additionalProperties === 'object' && !properties ? additionalProperties : undefined

const isMarked = ({ required = [] }: Shape, name: string, marking: Marking): boolean =>
  required.includes(name) === (marking === 'required')

/** In one line, with a link to each shape that has a name. */
export function typeOf(shape: Shape): Text {
  if (shape.$ref) return schemaLink(shape.$ref.replace(/^.*\//, ''))
  if (shape.enum) return shape.enum.map(String).join(' | ')
  if (shape.const !== undefined) return JSON.stringify(shape.const)
  const parts = partsOf(shape)
  if (parts.length > 0) return joined([...new Set(parts.map(typeOf))], shape.allOf ? ' and ' : ' or ')
  if (shape.items) return html`list of ${typeOf(shape.items)}`
  const values = valuesOf(shape)
  if (values) return html`map of ${typeOf(values)}`
  return shape.format ?? [shape.type ?? 'any'].flat().join(' or ')
}

export const schemaLink = (id: string): Markup => html`<a href="#schema-${id}">${id}</a>`

const joined = (parts: Text[], between: string): Markup =>
  html`${parts.map((part, place) => (place === 0 ? part : html`${between}${part}`))}`

/** Whole numbers of JavaScript end here: no limit of ours. */
const NO_LIMIT = Number.MAX_SAFE_INTEGER

function textOf(shape: Shape, mark: Marking | null): Markup {
  const { minimum = 0, maximum = NO_LIMIT, default: assumed } = shape
  const sentences = [
    ...(mark === null ? [] : [mark === 'required' ? 'Required.' : 'Optional.']),
    ...(shape.description === undefined ? [] : [shape.description]),
    ...(minimum > 0 ? [`At least ${minimum}.`] : []),
    ...(maximum < NO_LIMIT ? [`At most ${maximum}.`] : []),
    ...(assumed === undefined ? [] : [`Default: \`${JSON.stringify(assumed)}\`.`]),
  ]
  return prose(sentences.join(' '))
}

/** What stands between backticks is code. */
export const prose = (text: string): Markup =>
  html`${text.split('`').map((part, place) => (place % 2 === 1 ? html`<code>${part}</code>` : part))}`
