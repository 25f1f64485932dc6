import { Link, useNavigate } from '@tanstack/react-router'
import type { ConfigurationSummary } from '../../../src/configurations/schema.ts'
import { replaceUnsafeCharacters } from '../../../src/platform/terminal-text.ts'
import { plural } from '../../components/format.ts'
import { useRead } from '../api/use-api.ts'
import { DataTable } from '../components/data-table.tsx'
import { Loaded } from '../components/loaded.tsx'
import { Card, Empty, Page } from '../components/page.tsx'
import { formatTime } from '../components/times.ts'
import { listConfigurations } from '../endpoints.gen.ts'
import { useHasPermission } from '../session/session.tsx'
import { ConfigurationForm, EMPTY_CONFIGURATION } from './configuration-form.tsx'

/** The agent configurations of the workspace with their newest versions, and a form that creates one. */
export function ConfigurationsPage() {
  const configurationList = useRead(listConfigurations, { query: { limit: 200 } })
  const navigate = useNavigate()
  return (
    <Page title="Configurations">
      <Card>
        <Loaded query={configurationList}>
          {({ configurations }) =>
            configurations.length === 0 ? (
              <Empty command="assay configurations create rules AGENTS.md">
                Additions to coding agents appear here: an AGENTS.md, rules, skills or MCP servers. A comparison runs
                the same models with and without one.
              </Empty>
            ) : (
              <DataTable label="Configurations" heads={['Name', '#Newest version', 'Files', '#Created']}>
                {listNewestVersions(configurations).map((configuration) => (
                  <ConfigurationRow key={configuration.name} configuration={configuration} />
                ))}
              </DataTable>
            )
          }
        </Loaded>
      </Card>
      {useHasPermission('write') && (
        <Card title="Create a configuration">
          <ConfigurationForm
            initial={EMPTY_CONFIGURATION}
            onCreated={({ name }) => void navigate({ to: '/configurations/$name', params: { name } })}
          />
        </Card>
      )}
    </Page>
  )
}

/** Returns the newest version of each configuration. `all` must be sorted, newest first. */
export const listNewestVersions = (all: readonly ConfigurationSummary[]): ConfigurationSummary[] =>
  all.filter(({ name }, index) => all.findIndex((each) => each.name === name) === index)

type ConfigurationRowProps = { configuration: ConfigurationSummary }

const PATHS_SHOWN_MAX = 3

function ConfigurationRow({ configuration: { name, version, files, createdAt } }: ConfigurationRowProps) {
  const paths = files.map(({ path }) => path)
  return (
    <tr>
      <td>
        <Link to="/configurations/$name" params={{ name }}>
          {name}
        </Link>
      </td>
      <td className="number">{version}</td>
      <td>
        <bdi>{replaceUnsafeCharacters(paths.slice(0, PATHS_SHOWN_MAX).join(', '))}</bdi>
        {paths.length > PATHS_SHOWN_MAX && ` and ${plural(paths.length - PATHS_SHOWN_MAX, 'other')}`}
        {paths.length === 0 && <span className="muted">none</span>}
      </td>
      <td className="number">{formatTime(createdAt)}</td>
    </tr>
  )
}
