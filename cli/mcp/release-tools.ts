import { z } from 'zod'
import { call } from '../../src/platform/http/client.ts'
import { WrongUse } from '../failure.ts'
import { parseRepositoryName } from '../repository.ts'
import { formatCount } from '../table.ts'
import { repositoryName } from './repository-tools.ts'
import { defineTool, type McpTool } from './tool.ts'

export const releaseTools: McpTool[] = [
  defineTool({
    name: 'publish_release',
    title: 'Publish results',
    description:
      'Publish the results of a repository for everybody to read. Without confirm it returns the preview and its fingerprint and publishes nothing; with confirm: true and that fingerprint it publishes exactly what was previewed.',
    effect: 'publishes',
    input: z.object({
      repository: repositoryName,
      settings: z
        .array(z.string().max(500))
        .min(1)
        .max(200)
        .optional()
        .describe('Setting ids (default: all publishable)'),
      fingerprint: z.string().max(200).optional().describe('Fingerprint of the preview'),
      confirm: z.boolean().default(false).describe('Set to true after the user has agreed to publish this preview'),
    }),
    run: async ({ openService }, { repository, settings, fingerprint, confirm }) => {
      const ref = parseRepositoryName(repository)
      const service = await openService()
      const params = { org: service.org, ...ref }
      const { previewRelease, publishRelease } = await import('../../src/releases/schema.ts')
      const { body: preview } = await call(service, previewRelease, {
        params,
        query: settings ? { setting: settings } : {},
      })
      const keys = settings ?? preview.settings.filter(({ publishable }) => publishable).map(({ key }) => key)
      const facts = {
        fingerprint: preview.fingerprint,
        tasks: preview.tasks,
        settings: keys,
        blockers: preview.blockers,
      }
      if (!confirm)
        return {
          message: `Nothing was published. Repeat with confirm: true and fingerprint ${preview.fingerprint} to publish.`,
          lines: [
            `${formatCount(keys.length, 'setting')} of ${repository} on ${formatCount(preview.tasks, 'task')}: ${keys.join(', ')}`,
            ...preview.blockers.map(({ message }) => `Blocked: ${message}`),
          ],
          data: { published: false, ...facts },
        }
      if (fingerprint !== preview.fingerprint)
        throw new WrongUse('The fingerprint is missing, or results have changed since. Preview again without confirm.')
      const body = { settings: keys, head: preview.head, fingerprint, publishTasks: false }
      const { body: release, status } = await call(service, publishRelease, { params, body })
      return {
        message:
          status === 201 ? `Published at ${release.url}` : `Nothing has changed since the release at ${release.url}`,
        data: { published: true, release: release.releaseId, url: release.url },
      }
    },
  }),
]
