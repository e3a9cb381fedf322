// Logs in by the device flow with openid-client: prints a line of JSON with the user's code, and one with the token.
// Arguments: the issuer, and the scope.
import * as client from 'openid-client';

const [issuer, scope] = process.argv.slice(2);
const options = { algorithm: 'oauth2', execute: [client.allowInsecureRequests] };
const config = await client.discovery(new URL(issuer), 'openid-client', undefined, client.None(), options);
const begun = await client.initiateDeviceAuthorization(config, { scope });
process.stdout.write(`${JSON.stringify(begun)}\n`);
const token = await client.pollDeviceAuthorizationGrant(config, begun);
process.stdout.write(`${JSON.stringify(token)}\n`);
await client.tokenRevocation(config, token.access_token);
process.stdout.write('{"revoked": true}\n');
