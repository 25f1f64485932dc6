/** Variables that open something of whoever runs the task, whatever a fallback says. */
const OWN =
  /^(?:AWS_(?:ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN)|GOOGLE_APPLICATION_CREDENTIALS|AZURE_CLIENT_SECRET|GITHUB_TOKEN|GH_TOKEN|GITLAB_TOKEN|HF_TOKEN|HUGGING_FACE_HUB_TOKEN|NPM_TOKEN|CLAUDE_CODE_OAUTH_TOKEN|MODAL_TOKEN_(?:ID|SECRET)|SSH_AUTH_SOCK|DOCKER_HOST|DOCKER_AUTH_CONFIG|KUBECONFIG|VAULT_TOKEN|DATABASE_URL|ASSAY_(?:KEY|OPERATOR_KEY|BOOTSTRAP_KEY|MASTER_KEY\w*))$/

const SECRET_PARTS = new Set([
  'TOKEN',
  'SECRET',
  'SECRETS',
  'PASSWORD',
  'PASSWD',
  'CREDENTIAL',
  'CREDENTIALS',
  'APIKEY',
])

export const isOwnSecret = (name: string): boolean => OWN.test(name) || /_API_?KEY$/.test(name)

/** Looks like the name of a secret, which may well be one of the task's own. */
export const isSecretName = (name: string): boolean =>
  isOwnSecret(name) ||
  name.includes('PRIVATE_KEY') ||
  name.includes('ACCESS_KEY') ||
  name.split('_').some((part) => SECRET_PARTS.has(part))
