import { Link } from '@tanstack/react-router'
import type { ConfigurationSummary } from '../../../src/configurations/schema.ts'
import { useRead } from '../api/use-api.ts'
import { Loaded } from '../components/loaded.tsx'
import { Card } from '../components/page.tsx'
import { listNewestVersions } from '../configurations/configurations-page.tsx'
import { listConfigurations } from '../endpoints.gen.ts'
import { NO_CONFIGURATION } from './draft.ts'

/** `chosen` has references of configurations, `name@version`, and may contain `NO_CONFIGURATION`. */
type ConfigurationChoiceProps = { chosen: readonly string[]; onChange: (chosen: string[]) => void }

/** Chooses configurations. Every model runs once with each of them, as with `--configuration` on the command line. */
export function ConfigurationChoice({ chosen, onChange }: ConfigurationChoiceProps) {
  const configurationList = useRead(listConfigurations, { query: { limit: 200 } })
  const toggle = (reference: string, isChosen: boolean) =>
    onChange(isChosen ? [...chosen, reference] : chosen.filter((each) => each !== reference))
  return (
    <Card title="Configurations">
      <Loaded query={configurationList}>
        {({ configurations }) =>
          configurations.length === 0 ? (
            <p className="muted">
              Agents run as they are. <Link to="/configurations">Create a configuration</Link> to compare them with an
              AGENTS.md, rules or MCP servers.
            </p>
          ) : (
            <fieldset className="harnesses">
              <legend className="small muted">Every model runs with each of these</legend>
              {listChoices(configurations).map((reference) => (
                <label key={reference} className="check">
                  <input
                    type="checkbox"
                    checked={chosen.includes(reference)}
                    onChange={({ target }) => toggle(reference, target.checked)}
                  />{' '}
                  {reference}
                </label>
              ))}
            </fieldset>
          )
        }
      </Loaded>
    </Card>
  )
}

const listChoices = (configurations: readonly ConfigurationSummary[]): string[] => [
  NO_CONFIGURATION,
  ...listNewestVersions(configurations).map(({ name, version }) => `${name}@${version}`),
]
