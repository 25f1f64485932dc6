import { z } from 'zod'

/** The place after which the next page begins: the last row's time and id, so that inserts move nothing. */
export type Cursor = { at: Date; id: string }

export type Page = { limit: number; cursor?: Cursor | undefined }

const SEPARATOR = '~'

/** `id` says what the ids of the list look like. */
const cursor = (id: z.ZodString | z.ZodUUID) =>
  z
    .string()
    .max(200)
    .transform((text, context): Cursor => {
      const [at = '', ...rest] = text.split(SEPARATOR)
      const place = z.object({ at: z.iso.datetime(), id }).safeParse({ at, id: rest.join(SEPARATOR) })
      if (place.success) return { at: new Date(place.data.at), id: place.data.id }
      context.issues.push({ code: 'custom', input: text, message: 'This is not a cursor of this list.' })
      return z.NEVER
    })

/** Of a query, where everything is text. */
export const wholeNumber = () =>
  z.coerce.number({ error: ({ code }) => (code === 'invalid_type' ? 'must be a whole number' : undefined) }).int()

export const pageQuery = (id: z.ZodString | z.ZodUUID = z.uuid()) =>
  z.object({ limit: wholeNumber().min(1).max(200).default(50), cursor: cursor(id).optional() })

/** Takes the rows of a query for `limit + 1` rows and says where the next page begins. */
export function paged<Row, Item>(
  rows: Row[],
  limit: number,
  item: (row: Row) => Item,
  place: (row: Row) => Cursor,
): { items: Item[]; nextCursor: string | null } {
  const shown = rows.slice(0, limit)
  const last = shown.at(-1)
  const next = rows.length > limit && last ? place(last) : undefined
  return { items: shown.map(item), nextCursor: next ? `${next.at.toISOString()}${SEPARATOR}${next.id}` : null }
}
