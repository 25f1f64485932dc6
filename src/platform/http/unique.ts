import type { z } from 'zod'

/** Refuses a list that names something twice, at the place of the repetition. */
export const uniqueList = <Item extends z.ZodType<string>>(list: z.ZodArray<Item>): z.ZodArray<Item> =>
  list
    .check(({ value, issues }) => {
      for (const [place, item] of value.entries()) {
        if (value.indexOf(item) === place) continue
        issues.push({ ...DUPLICATE, input: item, path: [place] })
      }
    })
    .meta({ uniqueItems: true })

const DUPLICATE = {
  code: 'custom',
  message: 'must not repeat an earlier entry',
  params: { code: 'duplicate' },
} as const
