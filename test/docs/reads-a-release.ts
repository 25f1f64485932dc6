/** A block of docs/releases.md that needs more than a service: something must be published. */
export const READS_A_RELEASE = `curl -sf "$ASSAY_URL/api/public/results/lab/demo"
curl -sf "$ASSAY_URL/api/public/results/lab/demo/history"`
