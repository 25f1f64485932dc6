import { z } from 'zod'

/** Position of a page: time and id of the last row before it, so that inserts do not shift pages. */
type Cursor = { at: Date; id: string }

export type Page = { limit: number; cursor?: Cursor | undefined }

const SEPARATOR = '~'

/** Builds the schema of a cursor for ids of this shape. */
const cursor = (id: z.ZodString | z.ZodUUID) =>
  z
    .string()
    .max(200)
    .transform((text, context): Cursor => {
      const [at = '', ...rest] = text.split(SEPARATOR)
      const parsed = z.object({ at: z.iso.datetime(), id }).safeParse({ at, id: rest.join(SEPARATOR) })
      if (parsed.success) return { at: new Date(parsed.data.at), id: parsed.data.id }
      context.issues.push({
        code: 'custom',
        input: text,
        message: 'Invalid cursor. Use nextCursor of the previous page.',
      })
      return z.NEVER
    })

/** Parses an integer from a query parameter. */
export const queryInteger = () =>
  z.coerce.number({ error: ({ code }) => (code === 'invalid_type' ? 'must be a whole number' : undefined) }).int()

export const pageQuery = (id: z.ZodString | z.ZodUUID = z.uuid()) =>
  z.object({
    limit: queryInteger().min(1).max(200).default(50).describe('Maximum number of items on the page.'),
    cursor: cursor(id).optional().describe('`nextCursor` of the previous page.'),
  })

/** Builds a page from a query for `limit + 1` rows. The extra row tells whether there is a next page. */
export function toPage<Row>(
  rows: Row[],
  limit: number,
  toCursor: (row: Row) => Cursor,
): { items: Row[]; nextCursor: string | null } {
  const items = rows.slice(0, limit)
  const last = items.at(-1)
  const next = rows.length > limit && last ? toCursor(last) : undefined
  return { items, nextCursor: next ? `${next.at.toISOString()}${SEPARATOR}${next.id}` : null }
}

/** Returns the cursor of a row in a list that is ordered by the time of creation. */
export const toCreationCursor = ({ created_at: at, id }: { created_at: Date; id: string }): Cursor => ({ at, id })
