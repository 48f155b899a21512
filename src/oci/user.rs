//! As whom: users and groups from the manifest, the image's USER and the text of its /etc/passwd and /etc/group.

use k8s_openapi::api::core::v1::{PodSecurityContext, SecurityContext};
use oci_spec::runtime::{User, UserBuilder};

use super::{ConfigError, ContainerInput};

/// A container's credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// C-30.
    pub uid: u32,
    /// C-31.
    pub gid: u32,
    /// C-34, sorted. The primary group is always among them: an empty list would leave the caller's groups, and a
    /// process must not gain by dropping its primary group (CVE-2022-36109).
    pub groups: Vec<u32>,
    /// Home directory from passwd, else `/`.
    pub home: String,
}

impl Identity {
    /// For the specification.
    pub fn to_oci(&self) -> User {
        UserBuilder::default()
            .uid(self.uid)
            .gid(self.gid)
            .additional_gids(self.groups.clone())
            .build()
            .expect("every field has a default")
    }
}

/// Resolves C-30…C-34.
pub fn resolve(input: &ContainerInput<'_>) -> Result<Identity, ConfigError> {
    let pod = input.pod.pod.spec.as_ref();
    let pod = pod.and_then(|spec| spec.security_context.as_ref());
    let own = input.container.security_context.as_ref();
    let image = input.image.config().as_ref();
    let image_user = image
        .and_then(|config| config.user().as_deref())
        .unwrap_or_default();

    let run_as_user = choose(own, pod, |c| c.run_as_user, |p| p.run_as_user);
    let run_as_user = run_as_user
        .map(|value| id("runAsUser", value))
        .transpose()?;
    let run_as_group = choose(own, pod, |c| c.run_as_group, |p| p.run_as_group);
    let run_as_group = run_as_group
        .map(|value| id("runAsGroup", value))
        .transpose()?;
    if choose(own, pod, |c| c.run_as_non_root, |p| p.run_as_non_root) == Some(true) {
        verify_non_root(run_as_user, image_user)?;
    }

    let account = match run_as_user {
        Some(uid) => Account::of_uid(uid, input.passwd),
        None => Account::of_image(image_user, input)?,
    };
    let gid = run_as_group.unwrap_or(account.gid);
    Ok(Identity {
        uid: account.uid,
        gid,
        groups: groups(pod, &account, gid, input.group)?,
        home: account
            .home
            .filter(|home| home.starts_with('/'))
            .unwrap_or_else(|| "/".to_owned()),
    })
}

/// The container's own setting before the pod's.
fn choose<T>(
    own: Option<&SecurityContext>,
    pod: Option<&PodSecurityContext>,
    of_own: impl Fn(&SecurityContext) -> Option<T>,
    of_pod: impl Fn(&PodSecurityContext) -> Option<T>,
) -> Option<T> {
    own.and_then(of_own).or_else(|| pod.and_then(of_pod))
}

fn id(field: &'static str, value: i64) -> Result<u32, ConfigError> {
    match u32::try_from(value) {
        Ok(id) if id != u32::MAX => Ok(id),
        Ok(_) | Err(_) => Err(ConfigError::BadId { field, value }),
    }
}

/// C-32: a name is refused although it could be looked up, as kubelet does, so that a manifest means the same here.
fn verify_non_root(run_as_user: Option<u32>, image_user: &str) -> Result<(), ConfigError> {
    if let Some(uid) = run_as_user {
        return if uid == 0 {
            Err(ConfigError::RunAsUserIsRoot)
        } else {
            Ok(())
        };
    }
    let (user, _) = split_user(image_user);
    match parse_id(user) {
        Some(0) => Err(ConfigError::ImageRunsAsRoot),
        Some(_) => Ok(()),
        None if user.is_empty() => Err(ConfigError::ImageRunsAsRoot),
        None => Err(ConfigError::ImageUserNotNumeric(user.to_owned())),
    }
}

/// `user:group` → (`user`, `group`); both may be empty.
fn split_user(text: &str) -> (&str, &str) {
    text.trim().split_once(':').unwrap_or((text.trim(), ""))
}

/// What the user database says about a user.
struct Account {
    uid: u32,
    gid: u32,
    name: Option<String>,
    home: Option<String>,
}

impl Account {
    /// A uid that need not be in passwd.
    fn of_uid(uid: u32, passwd: &str) -> Self {
        Entry::all(passwd).find(|entry| entry.uid == uid).map_or(
            Self {
                uid,
                gid: 0,
                name: None,
                home: None,
            },
            Self::from,
        )
    }

    /// C-33. Digits are always a uid, even if passwd has a user of that name: otherwise such a user could be root and
    /// pass for not being it (C-32).
    fn of_image(user: &str, input: &ContainerInput<'_>) -> Result<Self, ConfigError> {
        let (user, group) = split_user(user);
        let mut account = if user.is_empty() {
            Self::of_uid(0, input.passwd)
        } else if let Some(uid) = parse_id(user) {
            Self::of_uid(uid, input.passwd)
        } else {
            let entry = Entry::all(input.passwd).find(|entry| entry.name == user);
            let unknown = || ConfigError::UnknownUser(user.to_owned());
            entry.map(Self::from).ok_or_else(unknown)?
        };
        if !group.is_empty() {
            account.gid = group_id(group, input.group)?;
        }
        Ok(account)
    }
}

impl From<Entry<'_>> for Account {
    fn from(entry: Entry<'_>) -> Self {
        Self {
            uid: entry.uid,
            gid: entry.gid,
            name: Some(entry.name.to_owned()),
            home: Some(entry.home.to_owned()),
        }
    }
}

/// A line of /etc/passwd; malformed lines are skipped.
struct Entry<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
}

impl<'a> Entry<'a> {
    fn all(passwd: &'a str) -> impl Iterator<Item = Self> {
        passwd.lines().filter_map(|line| {
            let mut fields = line.trim().split(':');
            let name = fields
                .next()
                .filter(|name| !name.is_empty() && !name.starts_with('#'))?;
            let (_password, uid, gid) = (fields.next()?, fields.next()?, fields.next()?);
            let (_comment, home) = (fields.next(), fields.next().unwrap_or_default());
            Some(Self {
                name,
                uid: parse_id(uid)?,
                gid: parse_id(gid)?,
                home,
            })
        })
    }
}

/// Lines of /etc/group as (name, gid, comma list of members); malformed lines are skipped.
fn group_entries(group: &str) -> impl Iterator<Item = (&str, u32, &str)> {
    group.lines().filter_map(|line| {
        let mut fields = line.trim().split(':');
        let (name, _password, gid) = (fields.next()?, fields.next()?, fields.next()?);
        Some((name, parse_id(gid)?, fields.next().unwrap_or_default()))
    })
}

fn group_id(group: &str, database: &str) -> Result<u32, ConfigError> {
    let by_name = || group_entries(database).find(|(name, _, _)| *name == group);
    parse_id(group)
        .or_else(|| by_name().map(|(_, gid, _)| gid))
        .ok_or_else(|| ConfigError::UnknownGroup(group.to_owned()))
}

/// Digits only, and not -1 as u32, which means "unchanged" to the kernel.
fn parse_id(text: &str) -> Option<u32> {
    let id = text.parse().ok().filter(|id| *id != u32::MAX)?;
    text.starts_with(|c: char| c.is_ascii_digit()).then_some(id)
}

/// C-34.
fn groups(
    pod: Option<&PodSecurityContext>,
    account: &Account,
    gid: u32,
    database: &str,
) -> Result<Vec<u32>, ConfigError> {
    let mut all = vec![gid];
    for listed in pod
        .and_then(|pod| pod.supplemental_groups.as_ref())
        .into_iter()
        .flatten()
    {
        all.push(id("supplementalGroups", *listed)?);
    }
    if let Some(group) = pod.and_then(|pod| pod.fs_group) {
        all.push(id("fsGroup", group)?);
    }
    let policy = pod.and_then(|pod| pod.supplemental_groups_policy.as_deref());
    if let (Some(name), true) = (&account.name, policy != Some("Strict")) {
        let member = |members: &str| members.split(',').any(|member| member.trim() == name);
        all.extend(
            group_entries(database)
                .filter(|(_, _, members)| member(members))
                .map(|(_, gid, _)| gid),
        );
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

#[cfg(test)]
mod tests;
