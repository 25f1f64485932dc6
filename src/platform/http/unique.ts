import type { z } from 'zod'

/** Rejects duplicates in a list and reports their positions. */
export const uniqueList = <Item extends z.ZodType<string>>(list: z.ZodArray<Item>): z.ZodArray<Item> =>
  list
    .check(({ value, issues }) => {
      for (const [index, item] of value.entries()) {
        if (value.indexOf(item) === index) continue
        issues.push({ ...DUPLICATE, input: item, path: [index] })
      }
    })
    .meta({ uniqueItems: true })

const DUPLICATE = {
  code: 'custom',
  message: 'must not repeat an earlier entry',
  params: { code: 'duplicate' },
} as const
