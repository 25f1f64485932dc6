/** One value of a metric with its labels. */
export type MetricSample = { name: string; labels: Readonly<Record<string, string>>; value: number }

/** Matches `name{labels} value`. The labels are optional. */
const SAMPLE_LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/
const LABEL_PATTERN = /(\w+)="((?:[^"\\]|\\.)*)"/g

/** Parses the text format of Prometheus. Lines that are no samples are skipped. */
export function parseMetrics(text: string): MetricSample[] {
  return text.split('\n').flatMap((line) => {
    const [, name, labels = '', value] = SAMPLE_LINE.exec(line) ?? []
    if (name === undefined || value === undefined || line.startsWith('#')) return []
    const pairs = [...labels.matchAll(LABEL_PATTERN)].map(([, key = '', content = '']) => [key, content])
    return [{ name, labels: Object.fromEntries(pairs), value: Number(value) }]
  })
}

/** Sums the samples of a metric that have all the given labels. Undefined if there are none. */
export function sumMetric(
  samples: readonly MetricSample[],
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  const matching = samples.filter(
    (sample) => sample.name === name && Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
  )
  return matching.length === 0 ? undefined : matching.reduce((sum, { value }) => sum + value, 0)
}
