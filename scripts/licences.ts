import { z } from 'zod'

const ALLOWED = new Set([
  ...['MIT', 'Apache-2.0', 'ISC', 'BSD-2-Clause', 'BSD-3-Clause', '0BSD', 'BlueOak-1.0.0'],
  ...['PostgreSQL', 'Python-2.0', 'CC0-1.0', 'Unlicense'],
  // Fonts.
  'OFL-1.1',
])

const Lockfile = z.object({
  packages: z.record(
    z.string(),
    z.object({ license: z.string().optional(), dev: z.boolean().optional(), link: z.boolean().optional() }),
  ),
})

/** Lists production packages, for any platform, with a licence that is not allowed. */
export const listForeignLicences = (lockfile: string): string[] =>
  Object.entries(Lockfile.parse(JSON.parse(lockfile)).packages)
    .filter(([path, { dev, link }]) => path !== '' && !dev && !link)
    .filter(([, { license }]) => !isAllowed(license ?? ''))
    .map(
      ([path, { license }]) =>
        `${path} has the licence ${license ?? '(none)'}, which scripts/licences.ts does not list.`,
    )

/** Evaluates a licence expression: `A OR B` needs one allowed licence, `A AND B` two. */
const isAllowed = (licence: string): boolean =>
  licence
    .replaceAll(/[()]/g, '')
    .split(' OR ')
    .some((choice) => choice.split(' AND ').every((name) => ALLOWED.has(name.trim())))
