import { z } from 'zod'
import type { ResolvedDataset } from '../harbor/registries/registry.ts'
import { Digest } from '../platform/blobs/blob.ts'

/** What a registry said of a dataset, as it lies in the database. */
export const StoredResolution: z.ZodType<ResolvedDataset> = z.object({
  registry: z.string(),
  org: z.string(),
  name: z.string(),
  ref: z.string(),
  resolvedRef: z.string(),
  revision: z.number().nullable(),
  description: z.string(),
  digest: Digest,
  tasks: z.array(
    z.object({
      org: z.string(),
      name: z.string(),
      digest: Digest,
      at: z.discriminatedUnion('kind', [
        z.object({ kind: z.literal('archive'), path: z.string() }),
        z.object({ kind: z.literal('git'), url: z.string(), commit: z.string(), path: z.string() }),
        z.object({ kind: z.literal('folder'), path: z.string() }),
      ]),
    }),
  ),
  files: z.array(z.object({ path: z.string(), digest: Digest })),
})
