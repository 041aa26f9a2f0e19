//! A server whose users log in (SCRAM) over TLS, with certificates that are made at its start.

use mongo_lease_testbed::Server;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// The password of the user `root`, who has all privileges.
pub const ROOT_PASSWORD: &str = "root-correct-horse";

/// An authority for certificates, trusted only by those who have its certificate.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// A new one.
    ///
    /// # Panics
    ///
    /// When the system has no randomness.
    #[must_use]
    pub fn new() -> Authority {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, "testbed authority");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(parameters, key).expect("a certificate");
        Authority { issuer }
    }

    /// Its certificate, as PEM.
    #[must_use]
    pub fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// A new key and a certificate for a server at this address, as PEM.
    ///
    /// # Panics
    ///
    /// When the address is none.
    #[must_use]
    pub fn server(&self, address: &str) -> String {
        let names = vec![address.to_owned()];
        let mut parameters = CertificateParams::new(names).expect("an address");
        parameters.distinguished_name.push(DnType::CommonName, "testbed server");
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // The member of a set is its own client as well.
        parameters.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.signed_by(&key, &self.issuer).expect("a certificate");
        format!("{}{}", key.serialize_pem(), certificate.pem())
    }
}

impl Default for Authority {
    fn default() -> Authority {
        Authority::new()
    }
}

/// Starts a replica set of one node that only users who log in, with TLS, can access.
///
/// # Panics
///
/// When there is no server or it does not start, with what was tried and what to do.
#[must_use]
pub fn start() -> Server {
    let authority = Authority::new();
    let key_and_certificate = authority.server("127.0.0.1");
    Server::builder()
        .tls(key_and_certificate, authority.certificate())
        .root_password(ROOT_PASSWORD)
        .start()
}
