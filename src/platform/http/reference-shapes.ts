import { html } from 'hono/html'

export type Markup = ReturnType<typeof html>
type ReferenceText = Markup | string

/** The part of JSON Schema that our schemas use. */
export type ReferenceShape = {
  type?: string | string[]
  properties?: Record<string, ReferenceShape>
  required?: string[]
  items?: ReferenceShape
  additionalProperties?: ReferenceShape | boolean
  enum?: unknown[]
  const?: unknown
  anyOf?: ReferenceShape[]
  oneOf?: ReferenceShape[]
  allOf?: ReferenceShape[]
  $ref?: string
  format?: string
  description?: string
  default?: unknown
  minimum?: number
  maximum?: number
}

export type ReferenceRow = [name: ReferenceText, type: ReferenceText, text: ReferenceText]

export const table = (headings: readonly [string, string, string], rows: readonly ReferenceRow[]): ReferenceText =>
  rows.length === 0
    ? ''
    : html`<table>
        <tr>${headings.map((heading) => html`<th scope="col">${heading}</th>`)}</tr>
        ${rows.map((cells) => html`<tr>${cells.map((cell) => html`<td>${cell}</td>`)}</tr>`)}
      </table>`

/** Requests mark required fields; responses mark optional ones. */
export type Marking = 'required' | 'optional'

/** Builds a row per field, including those of nested unnamed schemas: `scope.kind`, `checks[].ok`. */
export function fieldRows(shape: ReferenceShape, marking: Marking, prefix = ''): ReferenceRow[] {
  const own = Object.entries(shape.properties ?? {}).flatMap(([name, field]): ReferenceRow[] => [
    [
      html`<code>${prefix}${name}</code>`,
      renderType(field),
      renderDescription(field, isMarked(shape, name, marking) ? marking : null),
    ],
    ...innerRows(field, marking, `${prefix}${name}`),
  ])
  return [...own, ...listParts(shape).flatMap((part) => fieldRows(part, marking, prefix))]
}

function innerRows(field: ReferenceShape, marking: Marking, path: string): ReferenceRow[] {
  if (field.items) return innerRows(field.items, marking, `${path}[]`)
  const values = findValues(field)
  if (values) return innerRows(values, marking, `${path}{}`)
  const inner = listParts(field).flatMap((part) => innerRows(part, marking, path))
  return [...fieldRows({ ...field, ...NO_PARTS }, marking, `${path}.`), ...inner]
}

const NO_PARTS = { anyOf: [], oneOf: [], allOf: [] }

export const listParts = ({ anyOf = [], oneOf = [], allOf = [] }: ReferenceShape): ReferenceShape[] => [
  ...anyOf,
  ...oneOf,
  ...allOf,
]

const findValues = ({ additionalProperties, properties }: ReferenceShape): ReferenceShape | undefined =>
  typeof additionalProperties === 'object' && !properties ? additionalProperties : undefined

const isMarked = ({ required = [] }: ReferenceShape, name: string, marking: Marking): boolean =>
  required.includes(name) === (marking === 'required')

/** Renders a type in one line, with links to named schemas. */
export function renderType(shape: ReferenceShape): ReferenceText {
  if (shape.$ref) return schemaLink(shape.$ref.replace(/^.*\//, ''))
  if (shape.enum) return shape.enum.map(String).join(' | ')
  if (shape.const !== undefined) return JSON.stringify(shape.const)
  const parts = listParts(shape)
  if (parts.length > 0) return join([...new Set(parts.map(renderType))], shape.allOf ? ' and ' : ' or ')
  if (shape.items) return html`list of ${renderType(shape.items)}`
  const values = findValues(shape)
  if (values) return html`map of ${renderType(values)}`
  return shape.format ?? [shape.type ?? 'any'].flat().join(' or ')
}

export const schemaLink = (id: string): Markup => html`<a href="#schema-${id}">${id}</a>`

const join = (parts: ReferenceText[], between: string): Markup =>
  html`${parts.map((part, index) => (index === 0 ? part : html`${between}${part}`))}`

/** Maximum that zod gives to integers without a limit. */
const NO_LIMIT = Number.MAX_SAFE_INTEGER

function renderDescription(shape: ReferenceShape, mark: Marking | null): Markup {
  const { minimum = 0, maximum = NO_LIMIT, default: defaultValue } = shape
  const sentences = [
    ...(mark === null ? [] : [mark === 'required' ? 'Required.' : 'Optional.']),
    ...(shape.description === undefined ? [] : [shape.description]),
    ...(minimum > 0 ? [`At least ${minimum}.`] : []),
    ...(maximum < NO_LIMIT ? [`At most ${maximum}.`] : []),
    ...(defaultValue === undefined ? [] : [`Default: \`${JSON.stringify(defaultValue)}\`.`]),
  ]
  return prose(sentences.join(' '))
}

/** Renders text between backticks as code. */
export const prose = (text: string): Markup =>
  html`${text.split('`').map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part))}`
