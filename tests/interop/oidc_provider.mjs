// A real OAuth 2.0 authorization server on a free port of loopback, in which every question to a person is answered
// with yes at once. Prints one line of JSON when it listens. POST /test/keys changes the signing keys, POST
// /test/lifetime?seconds=N the lifetime of the access tokens that are made from now on, POST
// /test/resource?url=U&scope=S adds a resource with JWTs of these scopes, after which none is the default.
import { createServer } from 'node:http';
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import Provider, { errors } from 'oidc-provider';

const ACCOUNT = 'alice';
const SCOPES = ['skill:*', 'skill:forecast', 'skill:billing', 'read:forecast', 'publish', 'book:reservation'];
const FORMATS = { 'https://skills.example/': 'jwt', 'https://opaque.example/': 'opaque' };
const SCOPES_OF = {};
const scopesOf = (resource) => SCOPES_OF[resource] ?? SCOPES.join(' ');

let defaultResource = 'https://skills.example/';
let lifetime = 300;
let provider;
let issuer;

function signingKeys() {
  const made = [
    ['RS256', generateKeyPairSync('rsa', { modulusLength: 2048 })],
    ['ES256', generateKeyPairSync('ec', { namedCurve: 'P-256' })],
  ];
  return made.map(([alg, { privateKey }]) => (
    { ...privateKey.export({ format: 'jwk' }), kid: `${alg}-${randomUUID()}`, alg, use: 'sig' }
  ));
}

function clients() {
  const both = { response_types: ['code'], application_type: 'native' };
  return [
    {
      client_id: 'service', client_secret: 'service-secret', token_endpoint_auth_method: 'client_secret_basic',
      grant_types: ['client_credentials'], response_types: [], redirect_uris: [],
    },
    {
      client_id: 'native', token_endpoint_auth_method: 'none', redirect_uris: ['http://127.0.0.1/callback'],
      grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'], ...both,
    },
    {
      client_id: 'console', client_secret: 'console-secret', token_endpoint_auth_method: 'client_secret_basic',
      redirect_uris: ['127.0.0.1', 'localhost'].map((host) => `http://${host}/account/sign-in/answer`),
      grant_types: ['authorization_code'], ...both,
    },
    {
      client_id: 'resource-server', client_secret: 'resource-server-secret', grant_types: [], response_types: [],
      redirect_uris: [], token_endpoint_auth_method: 'client_secret_basic',
    },
  ];
}

async function grantEverything(ctx) {
  const { client, session } = ctx.oidc;
  const known = session.grantIdFor(client.clientId);
  const grant = (known && await provider.Grant.find(known))
    || new provider.Grant({ clientId: client.clientId, accountId: session.accountId });
  grant.addOIDCScope(['openid', 'profile', 'offline_access', ...SCOPES].join(' '));
  for (const resource of Object.keys(FORMATS)) grant.addResourceScope(resource, scopesOf(resource));
  await grant.save();
  return grant;
}

function page(ctx, title, body) {
  ctx.type = 'html';
  ctx.body = `<!doctype html><title>${title}</title>${body}`;
}

function build() {
  const made = new Provider(issuer, {
    clients: clients(),
    jwks: { keys: signingKeys() },
    cookies: { keys: ['cookies are signed in tests too'] },
    scopes: ['openid', 'offline_access', ...SCOPES],
    claims: { profile: ['preferred_username'] },
    conformIdTokenClaims: false,
    clientAuthMethods: ['client_secret_basic', 'none'],
    pkce: { required: () => true },
    enabledJWA: { idTokenSigningAlgValues: ['RS256', 'ES256'] },
    findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id, preferred_username: 'Alice' }) }),
    issueRefreshToken: (ctx, client) => client.grantTypeAllowed('refresh_token'),
    rotateRefreshToken: true,
    expiresWithSession: () => false,
    loadExistingGrant: grantEverything,
    interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
    renderError: (ctx, out) => page(ctx, 'error', `<p>${out.error}: ${out.error_description}`),
    ttl: {
      AccessToken: () => lifetime, ClientCredentials: () => lifetime, AuthorizationCode: 60, DeviceCode: 60,
      Grant: 3600, IdToken: 300, Interaction: 60, RefreshToken: 3600, Session: 3600,
    },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      registration: { enabled: true },
      introspection: {
        enabled: true, allowedPolicy: (ctx, client) => client.clientId === 'resource-server',
      },
      revocation: { enabled: true, allowedPolicy: (ctx, client, token) => token.clientId === client.clientId },
      deviceFlow: {
        enabled: true,
        userCodeInputSource: (ctx, form) => page(ctx, 'code', form),
        userCodeConfirmSource: (ctx, form) => page(ctx, 'confirm', form),
        successSource: (ctx) => page(ctx, 'success', '<p>done'),
      },
      resourceIndicators: {
        enabled: true,
        defaultResource: (ctx, client, oneOf) => oneOf?.[0] ?? defaultResource,
        useGrantedResource: () => true,
        getResourceServerInfo: (ctx, resource) => {
          if (!(resource in FORMATS)) throw new errors.InvalidTarget();
          return {
            scope: scopesOf(resource), audience: resource, accessTokenTTL: lifetime,
            accessTokenFormat: FORMATS[resource], jwt: { sign: { alg: 'RS256' } },
          };
        },
      },
    },
  });
  return made;
}

async function answer(request, response) {
  const url = new URL(request.url, issuer);
  if (url.pathname.startsWith('/interaction/')) {
    await provider.interactionFinished(request, response, { login: { accountId: ACCOUNT }, consent: {} });
  } else if (request.method === 'POST' && url.pathname === '/test/keys') {
    provider = build();
    response.end();
  } else if (request.method === 'POST' && url.pathname === '/test/resource') {
    FORMATS[url.searchParams.get('url')] = 'jwt';
    SCOPES_OF[url.searchParams.get('url')] = url.searchParams.get('scope');
    defaultResource = undefined;
    response.end();
  } else if (request.method === 'POST' && url.pathname === '/test/lifetime') {
    lifetime = Number(url.searchParams.get('seconds'));
    response.end();
  } else {
    provider.callback()(request, response);
  }
}

const server = createServer((request, response) => answer(request, response).catch((error) => {
  response.statusCode = 500;
  response.end(String(error));
}));
server.listen(0, '127.0.0.1', () => {
  issuer = `http://127.0.0.1:${server.address().port}`;
  provider = build();
  process.stdout.write(`${JSON.stringify({ issuer })}\n`);
});
// Whoever started this holds the other end of its input; when that is gone, so is this.
process.stdin.on('end', () => process.exit(0)).resume();
