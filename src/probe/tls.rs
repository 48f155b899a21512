//! TLS without verification: a probe asks whether a server answers, not who it is. Certificates and signatures are
//! not looked at, so what would check them is not linked, nor are ChaCha20 (every server speaks AES-GCM) and private keys.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};

use futures_lite::{AsyncRead, AsyncWrite};
use futures_rustls::TlsConnector;
use futures_rustls::client::TlsStream;
use futures_rustls::rustls::client::Resumption;
use futures_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use futures_rustls::rustls::crypto::ring::{cipher_suite, kx_group};
use futures_rustls::rustls::crypto::{
    CryptoProvider, GetRandomFailed, KeyProvider, SecureRandom, WebPkiSupportedAlgorithms,
};
use futures_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use futures_rustls::rustls::sign::SigningKey;
use futures_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme, version,
};

use super::dial::Connection;

static CONNECTOR: LazyLock<TlsConnector> = LazyLock::new(|| {
    let provider = CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
            cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
            cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        ],
        kx_groups: vec![kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1],
        signature_verification_algorithms: WebPkiSupportedAlgorithms {
            all: &[],
            mapping: &[],
        },
        secure_random: &Kernel,
        key_provider: &NoKeys,
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .expect("the suites above are of both versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    TlsConnector::from(Arc::new(config))
});

/// What HTTP is spoken over.
pub enum Stream<'a> {
    /// http.
    Plain(&'a Connection),
    /// https.
    Tls(Box<TlsStream<&'a Connection>>),
}

/// Speaks TLS to the server, which is told the name that the URL has; an address is not told.
pub async fn handshake<'a>(connection: &'a Connection, host: &str) -> io::Result<Stream<'a>> {
    // A name that DNS would not know was found in a file of this machine.
    let nobody = ServerName::from(IpAddr::from(Ipv4Addr::UNSPECIFIED));
    let name = ServerName::try_from(host.to_owned()).unwrap_or(nobody);
    let stream = CONNECTOR.connect(name, connection).await?;
    Ok(Stream::Tls(Box::new(stream)))
}

fn is_end(outcome: &io::Result<usize>) -> bool {
    matches!(outcome, Err(error) if error.kind() == io::ErrorKind::UnexpectedEof)
}

impl AsyncRead for Stream<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(connection) => Pin::new(connection).poll_read(cx, buffer),
            // Many servers end without the goodbye of TLS; Go lets that count as an end, too.
            Self::Tls(stream) => Pin::new(stream)
                .poll_read(cx, buffer)
                .map(|outcome| if is_end(&outcome) { Ok(0) } else { outcome }),
        }
    }
}

impl AsyncWrite for Stream<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(connection) => Pin::new(connection).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(connection) => Pin::new(connection).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_close(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(connection) => Pin::new(connection).poll_close(cx),
            Self::Tls(stream) => Pin::new(stream).poll_close(cx),
        }
    }
}

/// Takes any certificate.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![
            SignatureScheme::ECDSA_NISTP256_SHA256,
            SignatureScheme::ECDSA_NISTP384_SHA384,
            SignatureScheme::ECDSA_NISTP521_SHA512,
            SignatureScheme::ED25519,
            SignatureScheme::ED448,
            SignatureScheme::RSA_PSS_SHA256,
            SignatureScheme::RSA_PSS_SHA384,
            SignatureScheme::RSA_PSS_SHA512,
            SignatureScheme::RSA_PKCS1_SHA256,
            SignatureScheme::RSA_PKCS1_SHA384,
            SignatureScheme::RSA_PKCS1_SHA512,
            SignatureScheme::RSA_PKCS1_SHA1,
        ]
    }
}

/// The kernel's random numbers.
#[derive(Debug)]
struct Kernel;

impl SecureRandom for Kernel {
    fn fill(&self, mut bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        while !bytes.is_empty() {
            let flags = rustix::rand::GetRandomFlags::empty();
            let n = rustix::rand::getrandom(&mut *bytes, flags).map_err(|_| GetRandomFailed)?;
            bytes = bytes.get_mut(n..).unwrap_or_default();
        }
        Ok(())
    }
}

/// A probe shows no certificate.
#[derive(Debug)]
struct NoKeys;

impl KeyProvider for NoKeys {
    fn load_private_key(&self, _: PrivateKeyDer<'static>) -> Result<Arc<dyn SigningKey>, Error> {
        Err(Error::General("no private keys here".to_owned()))
    }
}
