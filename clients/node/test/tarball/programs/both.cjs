// For `require` and for `import` it is one package, so an error of one is an error of the other.

const leases = require('mongo-lease');

async function main() {
  const imported = await import('mongo-lease');
  const one = Object.keys(leases).filter((name) => leases[name] === imported[name]);
  console.log(one.length > 0, one.length === Object.keys(leases).length);
  const lease = await leases.inMemory().manager().acquire('a');
  console.log(lease instanceof imported.Lease);
}

void main();
