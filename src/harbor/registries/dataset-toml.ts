import { z } from 'zod'
import { Digest } from '../../platform/blobs/blob.ts'
import { newReport, shown } from '../report.ts'
import { parseToml } from '../toml-table.ts'

export const MANIFEST_FILE = 'dataset.toml'

const Name = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]*\/[A-Za-z0-9][A-Za-z0-9._-]*$/, 'must be org/name')

/** Harbor's dataset.toml. `path` is ours: where the task lies, when it is not beside it in a folder of its name. */
const Manifest = z.object({
  dataset: z.object({ name: Name, version: z.string().min(1).optional(), description: z.string().default('') }),
  tasks: z.array(z.object({ name: Name, digest: Digest.optional(), path: z.string().optional() })).optional(),
  files: z
    .array(z.object({ path: z.string().regex(/^[^/\\]+$/, 'must be a file name'), digest: Digest.optional() }))
    .default([]),
})
export type Manifest = z.infer<typeof Manifest>

export function readManifest(text: string): Manifest | { refused: string } {
  const report = newReport()
  const table = parseToml(text, MANIFEST_FILE, report)
  if (!table) return { refused: `${MANIFEST_FILE}: ${report.refusals[0]?.message ?? ''}` }
  const read = Manifest.safeParse(table)
  if (read.success) return read.data
  const [issue] = read.error.issues
  return { refused: shown(`${MANIFEST_FILE}: ${issue?.path.join('.')} ${issue?.message}.`) }
}
